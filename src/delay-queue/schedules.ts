import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.js'
import type { ClientPort } from '../redis/client.js'
import type { Commands } from '../redis/commands.js'
import { queueSchedule } from '../redis/scripts.js'

/** Schedules in this process are read synchronously, those in Redis asynchronously. */
type SyncOrAsync<Value> = Value | Promise<Value>

/** The schedules of some limits at one moment. */
export interface ScheduleReading {
  readonly nowMs: number
  /** By how much that is ahead of the clock by which callers say when a message is due; absent: 0. See queue_schedule.lua. */
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

/** Keeps the schedules of deferred messages. Several processes may change one: a write must name the token that the writer has read. */
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
  return randomBytes(9).toString('base64url')
}

/** The token of a text; '' if there is none. */
export function tokenOf(text: string): string {
  return text.slice(0, TOKEN_LENGTH)
}

/** The text after the token; '' for a schedule that was only opened. */
export function bodyOf(text: string): string {
  return text.slice(TOKEN_LENGTH)
}

/** Thirty years: Redis refuses lifetimes beyond its integers. */
const LONGEST_MS = 1e12

/** Schedules in Redis, in the same slot as the queue of their messages. */
export class QueueSchedules implements ScheduleStore {
  readonly #port: ClientPort
  readonly #commands: Commands
  readonly #base: string
  readonly #clock: Clock | undefined

  constructor(port: ClientPort, commands: Commands, keyBase: string, clock: Clock | undefined) {
    this.#port = port
    this.#commands = commands
    this.#base = keyBase
    this.#clock = clock
  }

  get available(): boolean {
    return this.#port.state() !== 'down'
  }

  look(names: readonly string[]): Promise<ScheduleReading> {
    return this.#run(names, ['look'])
  }

  open(names: readonly string[]): Promise<ScheduleReading> {
    return this.#run(names, ['open', newToken()])
  }

  write(names: readonly string[], texts: readonly ScheduleText[]): Promise<ScheduleWriting> {
    const fields = texts.flatMap(({ expected, text, lifetimeMs }) => [
      expected,
      text,
      String(Math.min(Math.ceil(lifetimeMs), LONGEST_MS)),
    ])
    return this.#run(names, ['write', ...fields])
  }

  async #run(names: readonly string[], args: readonly string[]): Promise<ScheduleWriting> {
    const keys = [`${this.#base}:clock`, ...['!clock', ...names].map(name => `${this.#base}:schedule:${name}`)]
    const clock = this.#clock === undefined ? '' : String(Math.floor(this.#clock.now()))
    const reply = (await this.#commands.run(queueSchedule, keys, [clock, ...args])) as [
      number,
      number,
      number,
      ...string[],
    ]
    const [nowMs, written, aheadMs, ...texts] = reply
    return { nowMs: Number(nowMs), aheadMs: Number(aheadMs), written: Number(written) === 1, texts }
  }
}
