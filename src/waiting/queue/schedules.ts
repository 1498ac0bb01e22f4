import { randomText } from '../../limiter/core/short-key.js'

/** Schedules in this process are read synchronously, those in Redis asynchronously. */
type SyncOrAsync<Value> = Value | Promise<Value>

/** The schedules of some limits at one moment. */
export interface ScheduleReading {
  readonly nowMs: number
  /**
   * By how much that is ahead of the clock by which callers say when a message is due; absent: 0. See `queue_schedule`
   * in lua/waiting/queue.
   */
  readonly aheadMs?: number
  /** For each name: its text, which begins with a token; '' if there is none. */
  readonly texts: readonly string[]
}

export interface ScheduleWriting extends ScheduleReading {
  /** False: another process has changed one of them meanwhile, and nothing was written. */
  readonly written: boolean
}

export interface ScheduleText {
  /** The token of the text that was read. */
  readonly expected: string
  readonly text: string
  /** In ms. */
  readonly lifetimeMs: number
}

/**
 * Keeps the schedules of deferred messages. Several processes may change one: a write must name the token that the
 * writer has read.
 */
export interface ScheduleStore {
  /** False while its server is known to be disconnected. */
  readonly available: boolean
  look(names: readonly string[]): SyncOrAsync<ScheduleReading>
  /** As `look`, and gives each missing schedule a token, so that other processes notice that it is being created. */
  open(names: readonly string[]): SyncOrAsync<ScheduleReading>
  /** Replaces all of them, or none. */
  write(names: readonly string[], texts: readonly ScheduleText[]): SyncOrAsync<ScheduleWriting>
}

/** The property under which a queue provides the store for its schedules. */
export const SCHEDULES = Symbol.for('spillway.schedules')

const TOKEN_LENGTH = 12

export function newToken(): string {
  return randomText(TOKEN_LENGTH)
}

/** The token of a text; '' if there is none. */
export function tokenOf(text: string): string {
  return text.slice(0, TOKEN_LENGTH)
}

/** The text after the token; '' for a schedule that was only opened. */
export function bodyOf(text: string): string {
  return text.slice(TOKEN_LENGTH)
}
