import { describe, expect, test } from '@jest/globals'
import type { ResponseEnd } from '../../src/http/response-watch.js'
import { followResponse, forgetRequest, watchRequest } from '../../src/http/web-response.js'

/** A request whose end is listened to, and what was told of it. */
function listened({ withinMs = 30_000 } = {}) {
  const client = new AbortController()
  const request = new Request('http://service.example/', { signal: client.signal })
  const watch = watchRequest(request)
  const ends: ResponseEnd[] = []
  const forget = watch.onEnd({ withinMs }, end => ends.push(end))
  return { client, request, watch, ends, forget }
}

/** A body of so many pieces; what was asked of it, and whether it was cancelled. */
function streamOf(pieces: number, failAfter = Number.POSITIVE_INFINITY) {
  const seen = { pulled: 0, cancelled: undefined as unknown }
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (seen.pulled === failAfter) throw new Error('broken')
        if (seen.pulled === pieces) return controller.close()
        seen.pulled++
        controller.enqueue(new TextEncoder().encode(`${seen.pulled};`))
      },
      cancel(reason) {
        seen.cancelled = reason
      },
    },
    { highWaterMark: 0 },
  )
  return { seen, body }
}

describe('a response of the web platform', () => {
  test('is over when its body has been read to the end, and not before', async () => {
    const { watch, ends } = listened()
    const { seen, body } = streamOf(2)
    const sent = followResponse(new Response(body, { status: 201, headers: { 'x-own': '1' } }), watch)
    expect([sent.status, sent.headers.get('x-own'), seen.pulled]).toEqual([201, '1', 0])
    const reader = sent.body!.getReader()
    await reader.read()
    await reader.read()
    expect([seen.pulled, ends]).toEqual([2, []])
    expect((await reader.read()).done).toBe(true)
    expect(ends).toEqual([{ completed: true, ended: true }])
    expect(watch.streamed).toBe(true)
  })

  test('gives the same bytes', async () => {
    const { watch } = listened()
    expect(await followResponse(new Response(streamOf(3).body), watch).text()).toBe('1;2;3;')
    const large = 'ü'.repeat(300_000)
    expect(await followResponse(new Response(large), listened().watch).text()).toBe(large)
  })

  test('is over when its body is cancelled, and hands the reason on', async () => {
    const { watch, ends } = listened()
    const { seen, body } = streamOf(9)
    const sent = followResponse(new Response(body), watch)
    const reader = sent.body!.getReader()
    await reader.read()
    await reader.cancel('enough')
    expect([ends, seen.cancelled]).toEqual([[{ completed: false, ended: true }], 'enough'])
  })

  test('is over when its body fails, and the failure is handed on', async () => {
    const { watch, ends } = listened()
    await expect(followResponse(new Response(streamOf(9, 1).body), watch).text()).rejects.toThrow('broken')
    expect(ends).toEqual([{ completed: false, ended: true }])
  })

  test('is over at once and stays as it is where there is no body, nobody listens or the client has gone', () => {
    const bare = listened()
    const empty = new Response(null, { status: 204 })
    expect(followResponse(empty, bare.watch)).toBe(empty)
    expect(bare.ends).toEqual([{ completed: true, ended: true }])
    const unheard = listened()
    unheard.forget()
    const text = new Response('text')
    expect(followResponse(text, unheard.watch)).toBe(text)
    expect(unheard.watch.ended).toBe(true)
    const left = listened()
    left.client.abort()
    expect(followResponse(text, left.watch)).toBe(text)
    expect(left.ends).toEqual([{ completed: false, ended: true }])
  })

  test('of a client that goes away ends after a limited time', () => {
    const { client, watch, ends } = listened({ withinMs: 0 })
    expect(watch.gone).toBe(false)
    client.abort()
    expect([watch.gone, ends]).toEqual([true, [{ completed: false, ended: false }]])
  })

  test('whose end cannot be observed reports that, once', () => {
    const { watch, ends } = listened()
    watch.expire()
    watch.end()
    expect(ends).toEqual([{ completed: false, ended: false }])
  })

  test('has one watch for each request, and a new one for a request that is answered again', () => {
    const { request, watch } = listened()
    expect(watchRequest(request)).toBe(watch)
    forgetRequest(request)
    expect(watchRequest(request)).not.toBe(watch)
  })
})
