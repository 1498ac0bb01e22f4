import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { CostError, StoreError } from '../../src/limiter/core/errors.js'
import { Guarded } from '../../src/limiter/guarded.js'

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

const DEADLINE_MS = 50

/** Makes a call that never ends, until its deadline is over. */
async function hang(guarded: Guarded): Promise<void> {
  const failed = guarded.hold(new Promise<never>(() => {})).catch(error => error)
  await jest.advanceTimersByTimeAsync(DEADLINE_MS)
  expect(await failed).toBeInstanceOf(StoreError)
}

async function opened(): Promise<Guarded> {
  const guarded = new Guarded(DEADLINE_MS)
  for (let i = 0; i < 20; i++) await hang(guarded)
  expect([guarded.mayAsk(), guarded.failing]).toEqual([false, true])
  return guarded
}

/** For how many ms no call may be made. */
async function closedMs(guarded: Guarded): Promise<number> {
  for (let ms = 0; ; ms++) {
    if (guarded.mayAsk()) return ms
    await jest.advanceTimersByTimeAsync(1)
  }
}

describe('while a server does not answer', () => {
  test('each probe without an answer makes the next one rarer, up to one in 5 s', async () => {
    const guarded = await opened()
    const waits: number[] = []
    for (let i = 0; i < 8; i++) {
      waits.push(await closedMs(guarded))
      await hang(guarded)
    }
    // Each wait begins when the probe's deadline is over; the interval doubles after the turn of the next probe was
    // set.
    expect(waits).toEqual([200, 150, 350, 750, 1550, 3150, 4950, 4950])
  })

  test('calls that are no probes do not make probes rarer', async () => {
    const guarded = await opened()
    for (let i = 0; i < 3; i++) await hang(guarded)
    expect(await closedMs(guarded)).toBe(50)
    expect(await closedMs(guarded)).toBe(200)
    expect(await closedMs(guarded)).toBe(200)
  })

  test('a refusal, however late, makes them as frequent as before, and a late answer allows one at once', async () => {
    const guarded = await opened()
    const ends: { resolve(): void; reject(): void }[] = []
    const asked = () => {
      const call = new Promise<void>((resolve, reject) => ends.push({ resolve, reject: () => reject(new Error('no')) }))
      guarded.hold(call).catch(() => {})
    }
    for (let i = 0; i < 5; i++) {
      await closedMs(guarded)
      asked()
      await jest.advanceTimersByTimeAsync(DEADLINE_MS)
    }
    ends[0].reject()
    await jest.advanceTimersByTimeAsync(0)
    expect(await closedMs(guarded)).toBe(200)
    ends[1].resolve()
    await jest.advanceTimersByTimeAsync(0)
    expect(await closedMs(guarded)).toBe(0)
    expect(await guarded.hold(Promise.resolve('yes'))).toBe('yes')
    expect([guarded.mayAsk(), guarded.mayAsk(), guarded.failing]).toEqual([true, true, false])
  })
})

test('an error in the request itself reaches the caller and says nothing of the server', async () => {
  const guarded = new Guarded(DEADLINE_MS)
  for (let i = 0; i < 30; i++) {
    await expect(guarded.hold(Promise.reject(new CostError('too much')))).rejects.toThrow(CostError)
  }
  expect([guarded.mayAsk(), guarded.failing]).toEqual([true, false])
  await expect(guarded.hold(Promise.reject(new Error('down')))).rejects.toThrow('the store failed: down')
  expect(guarded.failing).toBe(true)
})

test('without a connection nothing is asked, and no probe takes its turn', async () => {
  const lost = new StoreError('not connected')
  const errors: Error[] = []
  let isLost = true
  const observer = { storeFailed: (error: Error) => errors.push(error) }
  const guarded = new Guarded(DEADLINE_MS, { observer, lost: () => (isLost ? lost : undefined) })
  for (let i = 0; i < 30; i++) expect([guarded.mayAsk(), guarded.failing]).toEqual([false, true])
  expect(errors).toEqual(Array(30).fill(lost))
  isLost = false
  expect([guarded.mayAsk(), guarded.failing]).toEqual([true, false])
})
