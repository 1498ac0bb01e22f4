import type { Job } from './job.js'
import type { StoreOptions } from './options.js'

/** A question or a change that a limiter's user asked for. Carried out after the jobs that were added before it. */
export interface Errand {
  readonly verb: 'running' | 'done' | 'queued' | 'reservoir' | 'check' | 'add' | 'set' | 'leave'
  /** `check`: a weight; `add`: what the reservoir gains. */
  readonly value?: number
  /** `set`. */
  readonly changes?: Partial<StoreOptions>
  resolve(result: number | boolean | null): void
  reject(error: unknown): void
}

/** What a limiter tells and asks its store at once. The store goes through it in this order. */
export interface Tick {
  /** Jobs whose places come back: those that were executed, and those that were dropped before. */
  readonly freed: readonly Job[]
  /** The weight of those that were executed. */
  readonly ended: number
  /** The first jobs of the queue. */
  readonly heads: readonly Job[]
  /** The length of the queue, `heads` included. */
  readonly queued: number
  /** New jobs, in order. */
  readonly received: readonly Job[]
  /** The weight of all jobs that hold a place after `freed`. */
  readonly held: number
  /** The ms until the last of these jobs expires; -1: one of them never does. */
  readonly longestMs: number
  readonly errand: Errand | undefined
}

/** What happens to a new job. A number ≥ 0: it is launched in so many ms. */
export type Verdict = number
export const WAITS = -1
/** The queue is full, and a strategy has to decide. Later jobs are not decided. */
export const FULL = -2
/** Refused, with the whole queue: see the strategy BLOCK. */
export const BLOCKED = -3
/** Heavier than `maxConcurrent`. */
export const TOO_HEAVY = -4

export interface Answer {
  /** Of each of the `heads` that is launched: in how many ms. */
  readonly waits: readonly number[]
  /** Of the received jobs that are decided. The others are to be asked for again. */
  readonly verdicts: readonly Verdict[]
  /** Of the errand; undefined if it was not carried out. */
  readonly result: number | boolean | null | undefined
  /** The weight that runs, in all processes. */
  readonly running: number
  /** After the launches, and before the errand. */
  readonly reservoir: number | null
  readonly maxConcurrent: number | null
  readonly strategy: number
  /** While jobs wait, ask again after so many ms, whatever happens; Infinity: no need to. */
  readonly againMs: number
  /** While jobs wait or have a place, tell the store after so many ms that this process lives. */
  readonly renewMs: number
  /** Another process has blocked the limiter: the queue is to be dropped, before the new jobs. */
  readonly dropsQueue: boolean
}

/** Where the state of a limiter is kept. */
export interface LimiterStore {
  /** As they were given, or changed by this limiter. */
  readonly storeOptions: StoreOptions
  readonly timeout: number | null
  readonly ready: Promise<object>
  /** The channel on which limiters of this id hear each other. */
  readonly channel: string
  /** The Redis clients. */
  readonly clients: object
  tick(tick: Tick): Answer | Promise<Answer>
  publish(message: string): Promise<void>
  disconnect(flush: boolean): Promise<void>
}
