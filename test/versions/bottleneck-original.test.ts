// What its documentation does not say, its behaviour decides: random programs run with bottleneck 2.19.5 and with ours,
// over timers that the test moves.
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import Original from 'bottleneck'
import { Bottleneck } from '../../src/replacing/bottleneck/index.js'
import { type Random, randomFrom } from '../support/random.js'

const PROGRAMS = 120
/** Times are so long that two of them are never equal: the original is a few ms late with each job. */
const LONG_MS = 1_000_000

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] })
})

afterEach(() => {
  jest.useRealTimers()
})

async function settled(): Promise<void> {
  for (let i = 0; i < 12; i++) await new Promise(resolve => setImmediate(resolve))
}

/** Timer by timer, with all that each begins. */
async function pass(ms: number): Promise<void> {
  let isOver = false
  setTimeout(() => {
    isOver = true
  }, ms)
  while (!isOver) {
    await settled()
    jest.advanceTimersToNextTimer()
  }
  await settled()
}

/**
 * Options that the original keeps: with `updateSettings` its reservoirs stop, and what comes after an `expiration` ends
 * the process.
 */
function randomOptions(random: Random): Original.ConstructorOptions {
  const { integer, pick } = random
  const options: Record<string, unknown> = {}
  const maybe = (percent: number, name: string, value: () => unknown) => {
    if (integer(1, 100) <= percent) options[name] = value()
  }
  maybe(60, 'maxConcurrent', () => integer(1, 4))
  maybe(50, 'minTime', () => integer(1000, LONG_MS / 3))
  maybe(40, 'highWater', () => integer(0, 4))
  maybe(50, 'strategy', () => pick(Object.values(Original.strategy)))
  maybe(30, 'penalty', () => integer(1000, LONG_MS))
  maybe(30, 'rejectOnDrop', () => false)
  maybe(20, 'trackDoneStatus', () => true)
  maybe(40, 'reservoir', () => integer(0, 6))
  if (options.reservoir === undefined) return options
  const kind = integer(0, 3)
  const interval = 250 * integer(100, 400)
  if (kind === 0) Object.assign(options, { reservoirRefreshInterval: interval, reservoirRefreshAmount: integer(1, 5) })
  if (kind === 1) {
    Object.assign(options, { reservoirIncreaseInterval: interval, reservoirIncreaseAmount: integer(1, 3) })
    maybe(50, 'reservoirIncreaseMaximum', () => integer(2, 8))
  }
  return options
}

/** What a program saw: in order where the original promises an order. */
async function story(Class: typeof Original, seed: number) {
  const random = randomFrom(`original ${seed}`)
  const { integer, pick } = random
  const options = randomOptions(random)
  // The original looks at its reservoir each 250 ms.
  const longMs = options.reservoir === undefined ? LONG_MS : LONG_MS / 10
  const runs: string[] = []
  const results: string[] = []
  const answers: string[] = []
  const states = new Map<string, string>()
  const counts: Record<string, number> = { empty: 0, idle: 0 }
  const limiter = new Class(options)
  for (const name of ['empty', 'idle'] as const) limiter.on(name as 'idle', () => counts[name]++)
  limiter.on('depleted', (empty: boolean) => answers.push(`depleted ${empty}`))
  for (const name of ['received', 'queued', 'scheduled', 'executing', 'done', 'dropped'] as const) {
    limiter.on(name as 'done', (info: { options?: { id?: string }; retryCount?: number }) => {
      const id = info.options?.id
      if (id?.startsWith('job')) states.set(id, `${states.get(id) ?? id} ${name}${info.retryCount ?? ''}`)
    })
  }
  // The original counts a job that stop() drops as running for ever, and drops one that fails a second time after it.
  const mayStop = integer(0, 1) === 0
  const retries = mayStop ? 0 : integer(0, 2)
  limiter.on('failed', (error, { options, retryCount }) => {
    results.push(`failed ${options.id} ${retryCount} ${error.message}`)
    return retryCount < retries ? 1000 + Math.floor(longMs / 7) : undefined
  })
  let isStopping = false
  for (let i = integer(5, 30); i > 0; i--) {
    await pass(integer(1000, longMs))
    const id = `job${i}`
    const failure = new Error(`of ${id}`)
    const job = { id, priority: integer(0, 9), weight: pick([1, 1, 1, 1, 0, 2, 3]) }
    const durationMs = integer(1000, longMs)
    const fails = integer(1, 7) === 1
    const told = (name: string) => (value: unknown) => answers.push(`${name} ${JSON.stringify(value)}`)
    const rejected = (error: Error) =>
      results.push(`${id} ${error instanceof Class.BottleneckError ? 'BottleneckError' : ''} ${error.message}`)
    const work = (end: (error: Error | null) => void) => {
      runs.push(id)
      setTimeout(end, durationMs, fails ? failure : null)
    }
    const act = integer(0, 29)
    if (act === 0) answers.push(JSON.stringify([limiter.counts(), limiter.empty(), limiter.queued()]))
    else if (act === 1) void Promise.all([limiter.running(), limiter.done()]).then(told('running, done'))
    else if (act === 2) limiter.check(job.weight).then(told('check'))
    else if (act === 3) limiter.currentReservoir().then(told('reservoir'))
    else if (act === 4) limiter.incrementReservoir(2).then(told('increment'))
    else if (act === 5 && mayStop && !isStopping) {
      isStopping = true
      limiter.stop({ dropWaitingJobs: false }).then(
        () => results.push('stopped'),
        error => results.push(`stop: ${error.message}`),
      )
    } else if (act < 10)
      limiter.submit(job, work as never, (error: Error | null) => (error ? rejected(error) : results.push(id)))
    else {
      limiter
        .schedule(job, () => new Promise((resolve, reject) => work(error => (error ? reject(error) : resolve(id)))))
        .then(value => results.push(value as string), rejected)
    }
  }
  await pass(longMs * 8)
  const { RECEIVED, QUEUED, RUNNING, EXECUTING } = limiter.counts()
  const left = [RECEIVED, QUEUED, RUNNING, EXECUTING]
  // The job that ends a stop() makes the original idle once more.
  const idles = isStopping ? {} : { ...counts }
  if (!isStopping) limiter.stop().catch(() => {})
  await pass(1000)
  void limiter.disconnect()
  jest.clearAllTimers()
  return { options, runs, results: results.sort(), answers, states: [...states.values()].sort(), idles, left }
}

test(`${PROGRAMS} random programs run as with the original`, async () => {
  let jobs = 0
  for (let seed = 1; seed <= PROGRAMS; seed++) {
    const ours = await story(Bottleneck as never, seed)
    expect({ seed, ...ours }).toEqual({ seed, ...(await story(Original, seed)) })
    jobs += ours.runs.length
  }
  expect(jobs).toBeGreaterThan(PROGRAMS * 3)
}, 120_000)

test('jobs that end together: the limiter is idle once', async () => {
  const idles = async (Class: typeof Original) => {
    const limiter = new Class()
    let idles = 0
    limiter.on('idle', () => idles++)
    const jobs = Promise.all([1, 2, 3].map(() => limiter.schedule(async () => {})))
    await pass(100)
    await jobs
    return idles
  }
  expect([await idles(Original), await idles(Bottleneck as never)]).toEqual([1, 1])
})
