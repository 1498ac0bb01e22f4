import { createHash } from 'node:crypto'
import type { Limit } from '../../core/limit.js'
import type { ClientPort } from '../../redis/client.js'
import { runScript } from '../../redis/run-script.js'
import type { Script } from '../../redis/script.js'
import { acquire, notifyWaiters } from '../../redis/scripts.js'
import { calendarNow, TimelyScripts } from '../../redis/timely-scripts.js'
import type { Charge } from '../store.js'
import type { ChargeKeys } from './charge-keys.js'
import { limitArguments } from './wire.js'

const MOST_REPEATS = 2

/** What an ask says to the line: see line_ask.lua. */
interface RedisLineAsk {
  readonly member: string
  readonly replaces: string
  readonly words: readonly string[]
}

/** The line in Redis of those who wait for some limits under one name and key. */
export class RedisLine {
  /** The first of its keys, which no other line has. */
  readonly name: string
  readonly #marks: string
  /** The state of each limit, then the block list of each. */
  readonly #states: readonly string[]
  readonly #notes: readonly string[]
  readonly #limits: readonly Limit[]
  readonly #server: () => string

  /** `channel`: what the channels of all processes begin with. `now`: the time of a given clock as text, '' for the server's. */
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

  /** Tells those who wait that something may be free. */
  async notify(): Promise<void> {
    const keys = [...this.#line, this.#marks, ...this.#states]
    await this.#run(notifyWaiters, keys, [])
  }

  /** Asks again where the server is in another window of the calendar than we believed. */
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

/** Limits that are waited for together have a line of their own. */
function others([, ...states]: readonly string[]): string {
  if (states.length === 0) return ''
  return `:${createHash('sha256').update(states.join(' ')).digest('base64url').slice(0, 22)}`
}
