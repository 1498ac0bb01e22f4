import { createHash } from 'node:crypto'
import type { Limit } from '../../core/limit.js'
import type { ClientPort } from '../../redis/client.js'
import { runScript } from '../../redis/run-script.js'
import type { Script } from '../../redis/script.js'
import { acquire, notifyWaiters } from '../../redis/scripts.js'
import { calendarNow, TimelyScripts } from '../../redis/timely-scripts.js'
import type { Charge } from '../store.js'
import type { ChargeKeys } from './charge-keys.js'
import { limitArguments } from './wire-format.js'

const MOST_REPEATS = 2

/** One message to the line: see line_ask.lua. */
interface RedisLineAsk {
  readonly member: string
  readonly replaces: string
  readonly words: readonly string[]
}

/** The line in Redis in which requests wait for some limits under one name and key. */
export class RedisLine {
  /** Its first key, which no other line has. */
  readonly name: string
  readonly #marks: string
  /** The state key of each limit, then the block list of each. */
  readonly #states: readonly string[]
  readonly #notes: readonly string[]
  readonly #limits: readonly Limit[]
  readonly #server: () => string

  /** `channel`: the beginning of the channel names of all processes. `now`: a given clock's time as text, '' for the server's. */
  constructor(
    readonly port: ClientPort,
    keys: ChargeKeys,
    charges: readonly Charge[],
    readonly channel: string,
    readonly now: () => string,
  ) {
    const tag = keys.tagOf(charges[0])
    const states = charges.map(charge => keys.keyOf(charge, tag))
    this.name = `${states[0]}:line${others(states)}`
    this.#marks = keys.marksOf(charges, tag)
    this.#states = [...states, ...charges.map(charge => keys.blockListOf(charge, tag))]
    this.#notes = charges.map(charge => keys.noteOf(charge, tag))
    this.#limits = charges.map(({ limit }) => limit)
    this.#server = () => keys.serverOf(tag)
  }

  /** False while the client cannot be asked. */
  get isReady(): boolean {
    return this.port.state() !== 'down'
  }

  ask({ member, replaces, words }: RedisLineAsk): Promise<unknown> {
    const records = [this.#record(member), this.#record(replaces === '' ? member : replaces)]
    const keys = [...this.#line, ...records, this.#marks, ...this.#states, ...this.#notes]
    return this.#run(acquire, keys, words)
  }

  /** Wakes the waiters, because units may be free. */
  async notify(): Promise<void> {
    const keys = [...this.#line, this.#marks, ...this.#states]
    await this.#run(notifyWaiters, keys, [])
  }

  /** Repeats the call if the server is in another calendar window than this process assumed. */
  async #run(script: Script, keys: readonly string[], words: readonly string[], repeats = 0): Promise<unknown> {
    const scripts = TimelyScripts.of(this.port)
    const now = this.now()
    const nowMs = now === '' ? () => scripts.serverNow(this.#server()) : () => Number(now)
    const args = [now, this.channel, ...limitArguments(this.#limits, nowMs), ...words]
    try {
      return await runScript(this.port, script, keys, args)
    } catch (error) {
      const serverNow = calendarNow(error)
      if (serverNow === undefined || repeats === MOST_REPEATS) throw error
      scripts.learnNow(this.#server(), serverNow)
      return this.#run(script, keys, words, repeats + 1)
    }
  }

  get #line(): string[] {
    return [this.name, `${this.name}:asks`, `${this.name}:meta`]
  }

  #record(member: string): string {
    return `${this.name}:sent:${member}`
  }
}

/** The other state keys: each combination of limits has its own line. */
function others([, ...states]: readonly string[]): string {
  if (states.length === 0) return ''
  return `:${createHash('sha256').update(states.join(' ')).digest('base64url').slice(0, 22)}`
}
