import { describe, expect, test } from '@jest/globals'
import { ProcessPlaces } from '../../../src/http/concurrency/process-places.js'

const never = new AbortController().signal

describe('places in this process', () => {
  test('are as many as permits, for each key separately', () => {
    const places = new ProcessPlaces(2)
    const [a, b] = [places.enter('x'), places.enter('x')]
    expect(places.enter('x')).toBeNull()
    expect(places.enter('y')).not.toBeNull()
    a?.leave()
    a?.leave()
    expect(places.enter('x')).not.toBeNull()
    expect(places.enter('x')).toBeNull()
    b?.leave()
  })

  test('are handed over in the order of the requests, and no request overtakes waiters', async () => {
    const places = new ProcessPlaces(1)
    let inside = places.enter('x')
    const order: number[] = []
    const waiting = [0, 1, 2].map(async i => {
      inside = await places.wait('x', 1000, never)
      order.push(i)
    })
    for (let i = 0; i < 3; i++) {
      inside?.leave()
      expect(places.enter('x')).toBeNull()
      await waiting[i]
    }
    expect(order).toEqual([0, 1, 2])
    inside?.leave()
    expect(places.size).toBe(0)
  })

  test('are not given to waiters that have gone or whose time is over', async () => {
    const places = new ProcessPlaces(1)
    const inside = places.enter('x')
    const gone = new AbortController()
    const first = places.wait('x', 1000, gone.signal)
    const second = places.wait('x', 5, never)
    const third = places.wait('x', 1000, never)
    gone.abort('gone')
    await expect(first).rejects.toBe('gone')
    expect(await second).toBeNull()
    inside?.leave()
    const place = await third
    expect(place).not.toBeNull()
    place?.leave()
    await expect(places.wait('x', 5, AbortSignal.abort('before'))).rejects.toBe('before')
    expect(places.size).toBe(0)
  })

  test('are never given without permits, and waiting ends with its timeout', async () => {
    const places = new ProcessPlaces(0)
    expect(places.enter('x')).toBeNull()
    expect(await places.wait('x', 5, never)).toBeNull()
  })
})

test('a request that was admitted elsewhere counts here, and hands its place over only when there is room', async () => {
  const places = new ProcessPlaces(1)
  const elsewhere = [places.occupy('k'), places.occupy('k')]
  expect(places.enter('k')).toBeNull()
  const waits = places.wait('k', 5000, new AbortController().signal)
  let place: unknown
  waits.then(given => (place = given))
  elsewhere[0].leave()
  await undefined
  expect(place).toBeUndefined()
  elsewhere[1].leave()
  const given = await waits
  expect(given).not.toBeNull()
  given?.leave()
  expect(places.size).toBe(0)
})
