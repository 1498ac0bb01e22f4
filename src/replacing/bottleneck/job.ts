import type { Alarm } from '../../limiter/core/alarms.js'
import type { JobSettings } from './options.js'

export const PRIORITIES = 10
const DEFAULT_PRIORITY = 5
const NO_ID = '<no-id>'

/** The states of a job, in order. */
export const STATUSES = ['RECEIVED', 'QUEUED', 'RUNNING', 'EXECUTING', 'DONE'] as const
export type JobStatus = (typeof STATUSES)[number]
export const RECEIVED = 0
export const QUEUED = 1
export const RUNNING = 2
export const EXECUTING = 3
export const DONE = 4
/** Dropped, or done and forgotten. */
export const GONE = -1

/** The options of a job, complete. */
export interface WholeJobOptions {
  readonly priority: number
  readonly weight: number
  readonly expiration: number | null
  readonly id: string | number
}

export type PromiseMaker = new <T>(
  executor: (resolve: (value: T) => void, reject: (error: unknown) => void) => void,
) => Promise<T>

let jobs = 0

export class Job {
  readonly options: WholeJobOptions
  readonly promise: Promise<unknown>
  resolve!: (value: unknown) => void
  reject!: (error: unknown) => void
  status: number = RECEIVED
  /** How many attempts have begun or ended: odd during an attempt. */
  turns = 0
  /** Launches it, then ends its attempt: one timer for both. */
  timer: Alarm | undefined
  /** Called when it is decided whether the job is queued: true if a strategy was needed. */
  decided: ((reachedHighWater: boolean) => void) | undefined

  constructor(
    readonly task: (...args: unknown[]) => unknown,
    readonly args: readonly unknown[],
    given: JobSettings,
    maker: PromiseMaker,
  ) {
    const { priority, weight, expiration, id } = given
    this.options = {
      priority: priorityOf(priority),
      weight: weight ?? 1,
      expiration: expiration ?? null,
      // Numbered for the whole process: jobs of several limiters may meet in a limiter to which they are chained.
      id: id == null || id === NO_ID ? `${NO_ID}-${(jobs++).toString(36)}` : id,
    }
    this.promise = new maker((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  /** How many attempts have ended. */
  get retryCount(): number {
    return this.turns >> 1
  }
}

function priorityOf(given: number | null | undefined): number {
  if (!Number.isInteger(given)) return DEFAULT_PRIORITY
  return Math.min(PRIORITIES - 1, Math.max(0, given as number))
}

/** First in, first out. */
class Line {
  #jobs: (Job | undefined)[] = []
  #first = 0

  get length(): number {
    return this.#jobs.length - this.#first
  }

  push(job: Job): void {
    this.#jobs.push(job)
  }

  at(index: number): Job {
    return this.#jobs[this.#first + index] as Job
  }

  shift(): Job {
    const job = this.#jobs[this.#first] as Job
    this.#jobs[this.#first++] = undefined
    if (this.#first >= 32 && this.#first * 2 >= this.#jobs.length) {
      this.#jobs = this.#jobs.slice(this.#first)
      this.#first = 0
    }
    return job
  }
}

/** The waiting jobs of a limiter: the best priority first, and first come, first served within it. */
export class Queue {
  readonly #lines: readonly Line[] = Array.from({ length: PRIORITIES }, () => new Line())
  length = 0

  push(job: Job): void {
    this.#lines[job.options.priority].push(job)
    this.length++
  }

  /** The number of jobs of one priority. */
  of(priority: number): number {
    return this.#lines[priority]?.length ?? 0
  }

  /** The first jobs, at most so many. */
  heads(most: number): Job[] {
    const heads: Job[] = []
    for (const line of this.#lines) {
      for (let i = 0; i < line.length && heads.length < most; i++) heads.push(line.at(i))
    }
    return heads
  }

  shift(): Job | undefined {
    return this.#shift(this.#lines.find(line => line.length > 0))
  }

  /** Removes the oldest of the least important jobs, if it is of this priority or less important. */
  shiftLast(priority: number): Job | undefined {
    return this.#shift(this.#lines.findLast((line, index) => index >= priority && line.length > 0))
  }

  #shift(line: Line | undefined): Job | undefined {
    if (line === undefined) return undefined
    this.length--
    return line.shift()
  }
}
