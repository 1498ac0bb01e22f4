import { describe, expect, test } from '@jest/globals'
import { Alarm } from '../../../src/limiter/core/alarms.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { type Patience, patienceOf, Wait } from '../../../src/limiter/core/wait.js'

const FOREVER: Patience = { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined }
const late = () => new Error('late')
const sleep = (ms: number) => new Promise(done => setTimeout(done, ms))

describe('an alarm', () => {
  test('never rings before its moment', async () => {
    const errors: number[] = []
    await Promise.all(
      Array.from({ length: 300 }, (_, i) => {
        const at = performance.now() + 5 + i * 0.37
        return new Promise<void>(done => {
          new Alarm(() => {
            errors.push(performance.now() - at)
            done()
          }).set(at)
        })
      }),
    )
    expect(Math.min(...errors)).toBeGreaterThanOrEqual(0)
  })

  test('rings once, at the last moment it was set to', async () => {
    const rung: number[] = []
    const start = performance.now()
    const alarm = new Alarm(() => rung.push(performance.now() - start))
    alarm.set(start + 5)
    alarm.set(start + 40)
    // An alarm rings by real time: twice as long as it is set to.
    await sleep(80)
    expect(rung).toHaveLength(1)
    expect(rung[0]).toBeGreaterThanOrEqual(40)
  })

  test('set to a moment beyond the range of timers does not ring at once', async () => {
    let rung = 0
    const alarm = new Alarm(() => rung++)
    alarm.set(performance.now() + 2 ** 31 + 1000)
    // As long as an alarm would take that rings at once.
    await sleep(20)
    alarm.clear()
    expect(rung).toBe(0)
  })
})

describe('a wait', () => {
  test('rejects at the end of its timeout with the given error', async () => {
    const start = performance.now()
    const wait = new Wait<void>({ timeoutMs: 20, signal: undefined }, late)
    await expect(wait.promise).rejects.toThrow('late')
    expect(performance.now() - start).toBeGreaterThanOrEqual(20)
    expect(wait.leftMs).toBe(0)
  })

  test('rejects at once with the reason of its signal, before its owner is notified', async () => {
    const controller = new AbortController()
    const endedAtCall: boolean[] = []
    const wait: Wait<void> = new Wait<void>({ ...FOREVER, signal: controller.signal }, late, () =>
      endedAtCall.push(wait.ended),
    )
    const reason = new Error('the user left')
    controller.abort(reason)
    // In this turn of the event loop.
    const nextTurn = new Promise(resolve => setImmediate(resolve))
    expect(await Promise.race([wait.promise.catch(error => error), nextTurn])).toBe(reason)
    expect(endedAtCall).toEqual([true])
  })

  test('ends at once if its signal was aborted before', async () => {
    const reason = new Error('never mind')
    const wait = new Wait<void>({ ...FOREVER, signal: AbortSignal.abort(reason) }, late)
    expect(wait.ended).toBe(true)
    await expect(wait.promise).rejects.toBe(reason)
  })

  test('can share one signal with a thousand others without a warning, and leaves no listener on it', async () => {
    const warnings: Error[] = []
    const warned = (warning: Error) => warnings.push(warning)
    process.on('warning', warned)
    const controller = new AbortController()
    let listening = 0
    const { signal } = controller
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listening++
      add(...args)
    }
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listening--
      remove(...args)
    }
    const waits = Array.from({ length: 1000 }, () => new Wait<number>({ ...FOREVER, signal }, late))
    expect(listening).toBe(1)
    for (const wait of waits) wait.resolve(1)
    await Promise.all(waits.map(wait => wait.promise))
    expect(listening).toBe(0)
    const again = Array.from({ length: 20 }, () => new Wait<number>({ ...FOREVER, signal }, late))
    controller.abort(new Error('all'))
    const ends = await Promise.allSettled(again.map(wait => wait.promise))
    expect(ends.every(end => end.status === 'rejected' && end.reason.message === 'all')).toBe(true)
    // A warning is told in a later turn.
    await new Promise(resolve => setImmediate(resolve))
    process.off('warning', warned)
    expect(warnings).toEqual([])
  })

  test('ends once: later events change nothing', async () => {
    const controller = new AbortController()
    const wait = new Wait<number>({ timeoutMs: 5, signal: controller.signal }, late)
    wait.resolve(1)
    wait.reject(new Error('too late'))
    wait.resolve(2)
    controller.abort()
    // As long as the timer of the wait would take to end it.
    await sleep(15)
    expect(await wait.promise).toBe(1)
  })
})

describe('patience', () => {
  test('accepts durations, 0, Infinity, and negative numbers as 0', () => {
    expect(patienceOf({ timeout: '1s' }, 'acquire', 7).timeoutMs).toBe(1000)
    expect(patienceOf({ timeout: 0 }, 'acquire', 7).timeoutMs).toBe(0)
    expect(patienceOf({ timeout: -5 }, 'acquire', 7).timeoutMs).toBe(0)
    expect(patienceOf({ timeout: Number.POSITIVE_INFINITY }, 'acquire', 7).timeoutMs).toBe(Number.POSITIVE_INFINITY)
    expect(patienceOf(undefined, 'acquire', 7).timeoutMs).toBe(7)
  })

  test('refuses invalid values, and names the method that was called', () => {
    expect(() => patienceOf({ timeout: 'soon' }, 'acquire', 0)).toThrow(PolicyError)
    expect(() => patienceOf({ timeout: 'soon' }, 'acquire', 0)).toThrow(/^acquire: timeout: duration "soon": expected/)
    expect(() => patienceOf({ timeout: Number.NaN }, 'acquire', 0)).toThrow(PolicyError)
    const signal = 'stop' as unknown as AbortSignal
    expect(() => patienceOf({ signal }, 'acquire', 0)).toThrow('acquire: signal "stop": expected an AbortSignal')
  })
})
