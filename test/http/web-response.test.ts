import { afterEach, describe, expect, jest, test } from '@jest/globals'
import type { ResponseEnd } from '../../src/http/response-watch.js'
import { followResponse, forgetRequest, watchRequest } from '../../src/http/web-response.js'

/** From now on time stands still until it is told to pass. */
function freezeTime(): { passes(ms: number): Promise<void> } {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
  return { passes: ms => jest.advanceTimersByTimeAsync(ms) }
}
afterEach(() => void jest.useRealTimers())

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
    const { request, watch, ends } = listened()
    const { seen, body } = streamOf(2)
    const sent = followResponse(new Response(body, { status: 201, headers: { 'x-own': '1' } }), request)
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
    const { request } = listened()
    expect(await followResponse(new Response(streamOf(3).body), request).text()).toBe('1;2;3;')
    const large = 'ü'.repeat(300_000)
    expect(await followResponse(new Response(large), listened().request).text()).toBe(large)
  })

  test('is over when its body is cancelled, and hands the reason on', async () => {
    const { request, ends } = listened()
    const { seen, body } = streamOf(9)
    const sent = followResponse(new Response(body), request)
    const reader = sent.body!.getReader()
    await reader.read()
    await reader.cancel('enough')
    expect([ends, seen.cancelled]).toEqual([[{ completed: false, ended: true }], 'enough'])
  })

  test('is over when its body fails, and the failure is handed on', async () => {
    const { request, ends } = listened()
    await expect(followResponse(new Response(streamOf(9, 1).body), request).text()).rejects.toThrow('broken')
    expect(ends).toEqual([{ completed: false, ended: true }])
  })

  test('is over at once and stays as it is where there is no body, nobody listens or the client has gone', () => {
    const bare = listened()
    const empty = new Response(null, { status: 204 })
    expect(followResponse(empty, bare.request)).toBe(empty)
    expect(bare.ends).toEqual([{ completed: true, ended: true }])
    const unheard = listened()
    unheard.forget()
    const text = new Response('text')
    expect(followResponse(text, unheard.request)).toBe(text)
    expect(unheard.watch.ended).toBe(true)
    const left = listened()
    left.client.abort()
    expect(followResponse(text, left.request)).toBe(text)
    expect(left.ends).toEqual([{ completed: false, ended: true }])
  })

  test('of a client that goes away ends after a limited time', () => {
    const { client, watch, ends } = listened({ withinMs: 0 })
    expect(watch.gone).toBe(false)
    client.abort()
    expect([watch.gone, ends]).toEqual([true, [{ completed: false, ended: false }]])
  })

  test('whose body nobody reads ends a given time after the last piece was taken', async () => {
    const time = freezeTime()
    const { request, ends } = listened({ withinMs: 50 })
    const reader = followResponse(new Response(streamOf(9).body), request).body!.getReader()
    for (const _ of [1, 2, 3]) {
      await time.passes(30)
      await reader.read()
    }
    expect(ends).toEqual([])
    await time.passes(60)
    expect(ends).toEqual([{ completed: false, ended: false }])
  })

  test('that is thrown away unread ends after that time', async () => {
    const time = freezeTime()
    const { request, ends } = listened({ withinMs: 20 })
    followResponse(new Response('thrown away'), request)
    await time.passes(40)
    expect(ends).toEqual([{ completed: false, ended: false }])
  })

  test('whose source is slow does not end', async () => {
    const time = freezeTime()
    const { request, ends } = listened({ withinMs: 10 })
    const body = new ReadableStream({
      pull: stream => new Promise(resolve => setTimeout(resolve, 50)).then(() => stream.close()),
    })
    const text = followResponse(new Response(body), request).text()
    await time.passes(30)
    expect(ends).toEqual([])
    await time.passes(20)
    expect(await text).toBe('')
    expect(ends).toEqual([{ completed: true, ended: true }])
  })

  test('that was sent already is over, and stays as it is', () => {
    const { request, ends } = listened()
    const sent = new Response('sent')
    sent.body!.getReader()
    expect(followResponse(sent, request)).toBe(sent)
    expect(ends).toEqual([{ completed: true, ended: true }])
  })

  test('is over when its client goes, although nobody cancels its body', () => {
    const { client, request, ends } = listened()
    followResponse(new Response('text'), request)
    client.abort()
    expect(ends).toEqual([{ completed: false, ended: true }])
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
