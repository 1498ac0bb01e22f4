import type { Clock } from '../../limiter/core/clock.js'
import type { ClientPort } from '../../redis/client.js'
import { type Commands, clockArgument } from '../../redis/commands.js'
import { queueSchedule } from '../../redis/scripts.js'
import {
  newToken,
  type ScheduleReading,
  type ScheduleStore,
  type ScheduleText,
  type ScheduleWriting,
} from './schedules.js'

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
    const reply = (await this.#commands.run(queueSchedule, keys, [clockArgument(this.#clock), ...args])) as [
      number,
      number,
      number,
      ...string[],
    ]
    const [nowMs, written, aheadMs, ...texts] = reply
    return { nowMs: Number(nowMs), aheadMs: Number(aheadMs), written: Number(written) === 1, texts }
  }
}
