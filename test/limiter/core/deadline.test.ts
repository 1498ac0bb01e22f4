import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { Deadline } from '../../../src/limiter/core/clock.js'
import { StoreError } from '../../../src/limiter/core/errors.js'
import { runChild } from '../../support/child.js'

const never = () => new Promise<never>(() => {})
// Work that takes so long: deadlines are real time.
const laterBy = <T>(ms: number, value: T) => new Promise<T>(resolve => setTimeout(() => resolve(value), ms))

/** What became of a promise so far. */
async function stateOf(promise: Promise<unknown>): Promise<string> {
  const state = promise.then(
    value => `answered ${value}`,
    (error: Error) => `rejected: ${error.message}`,
  )
  return Promise.race([state, Promise.resolve().then(() => Promise.resolve('pending'))])
}

describe('a deadline', () => {
  beforeEach(() => {
    jest.useFakeTimers()
  })
  afterEach(() => {
    jest.useRealTimers()
  })

  test('lets an answer in time pass, and an error too', async () => {
    const deadline = new Deadline(50)
    await expect(deadline.hold(Promise.resolve('yes'))).resolves.toBe('yes')
    const mine = new Error('mine')
    await expect(deadline.hold(Promise.reject(mine))).rejects.toBe(mine)
    const answer = deadline.hold(laterBy(49, 'just'))
    await jest.advanceTimersByTimeAsync(49)
    await expect(answer).resolves.toBe('just')
  })

  test('rejects at the moment when it is over, not before', async () => {
    const answer = new Deadline(50).hold(never())
    const caught = answer.catch(error => error)
    await jest.advanceTimersByTimeAsync(49)
    expect(await stateOf(answer)).toBe('pending')
    await jest.advanceTimersByTimeAsync(1)
    expect(await stateOf(answer)).toBe('rejected: the store did not answer within 50 ms')
    expect(await caught).toBeInstanceOf(StoreError)
  })

  test('belongs to each request, counted from the moment of the request', async () => {
    const deadline = new Deadline(50)
    const answers: Promise<unknown>[] = []
    for (let i = 0; i < 5; i++) {
      answers.push(deadline.hold(i === 2 ? laterBy(10, 'two') : never()))
      answers[i].catch(() => {})
      await jest.advanceTimersByTimeAsync(10)
    }
    const states = async () => (await Promise.all(answers.map(stateOf))).map(state => state.split(' ')[0])
    expect(await states()).toEqual(['rejected:', 'pending', 'answered', 'pending', 'pending'])
    await jest.advanceTimersByTimeAsync(9)
    expect(await states()).toEqual(['rejected:', 'pending', 'answered', 'pending', 'pending'])
    await jest.advanceTimersByTimeAsync(1)
    expect(await states()).toEqual(['rejected:', 'rejected:', 'answered', 'pending', 'pending'])
    await jest.advanceTimersByTimeAsync(30)
    expect(await states()).toEqual(['rejected:', 'rejected:', 'answered', 'rejected:', 'rejected:'])
  })

  test('ignores a late answer and a late error, but reports that an answer came', async () => {
    const deadline = new Deadline(50)
    const answer = deadline.hold(laterBy(80, 'late'))
    const other = deadline.hold(laterBy(90, '').then(() => Promise.reject(new Error('late'))))
    const caught = Promise.allSettled([answer, other])
    const told: string[] = []
    const call = { endsAt: 0, settled: false, expire: () => told.push('over'), late: () => told.push('late') }
    deadline.start(call)
    await jest.advanceTimersByTimeAsync(200)
    expect((await caught).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect([deadline.answered(call), deadline.failed(call)]).toEqual([false, false])
    expect(told).toEqual(['over', 'late'])
  })

  test('keeps at most one timer, and none when all requests are answered and over', async () => {
    const deadline = new Deadline(50)
    for (let i = 0; i < 100; i++) void deadline.hold(laterBy(1, i))
    const caught = deadline.hold(never()).catch(() => 'over')
    expect(jest.getTimerCount()).toBe(100 + 1)
    await jest.advanceTimersByTimeAsync(1)
    expect(jest.getTimerCount()).toBe(1)
    await jest.advanceTimersByTimeAsync(100)
    expect(await caught).toBe('over')
    expect(jest.getTimerCount()).toBe(0)
  })

  test('keeps at most one timer, although callers ask again at once when it is over', async () => {
    const deadline = new Deadline(50)
    const ask = (again: number): void => {
      deadline.start({ endsAt: 0, settled: false, expire: () => again > 0 && ask(again - 1) })
    }
    for (let i = 0; i < 10; i++) {
      ask(2)
      await jest.advanceTimersByTimeAsync(3)
    }
    await jest.advanceTimersByTimeAsync(50)
    expect(jest.getTimerCount()).toBe(1)
    await jest.advanceTimersByTimeAsync(200)
    expect(jest.getTimerCount()).toBe(0)
  })

  test('a call that may take longer delays no later one', async () => {
    const deadline = new Deadline(50)
    const told: string[] = []
    const call = (name: string) => ({ endsAt: 0, settled: false, expire: () => void told.push(name) })
    const answered = call('answered')
    deadline.start(call('patient'), performance.now() + 1000)
    deadline.start(answered, performance.now() + 1000)
    deadline.start(call('usual'))
    await jest.advanceTimersByTimeAsync(60)
    expect(told).toEqual(['usual'])
    expect(deadline.answered(answered)).toBe(true)
    await jest.advanceTimersByTimeAsync(1000)
    expect([told, jest.getTimerCount()]).toEqual([['usual', 'patient'], 0])
  })

  test('of more days than a timer can hold neither ends early nor keeps the process busy', async () => {
    const set = jest.spyOn(globalThis, 'setTimeout')
    const deadline = new Deadline(100 * 86_400_000)
    const answer = deadline.hold(never())
    const caught = answer.catch(() => 'over')
    await jest.advanceTimersByTimeAsync(1000)
    expect(await stateOf(answer)).toBe('pending')
    expect(set.mock.calls.length).toBeLessThan(5)
    for (const [, ms] of set.mock.calls) expect(ms).toBeLessThan(2 ** 31)
    await jest.advanceTimersByTimeAsync(100 * 86_400_000)
    expect(await caught).toBe('over')
    set.mockRestore()
  })
})

test('a deadline keeps no process alive once everything is answered', async () => {
  const { code, signal } = await runChild(
    `import { Deadline } from './src/limiter/core/clock.ts'
     await new Deadline(60_000).hold(Promise.resolve())`,
    { timeoutMs: 4000 },
  )
  expect([code, signal]).toEqual([0, null])
})
