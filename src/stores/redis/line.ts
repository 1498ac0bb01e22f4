import type { StoreError } from '../../core/errors.js'
import type { Limit } from '../../core/limit.js'
import { notConnected } from '../../redis/not-connected.js'
import { acquire } from '../../redis/scripts.js'
import type { Charge } from '../store.js'
import { waitersChannel } from './changes.js'
import type { StoreScripts } from './store-scripts.js'
import { limitArguments } from './wire-format.js'

/** One message to the line: see lua/lib/line_ask.lua. */
interface RedisLineAsk {
  readonly member: string
  readonly replaces: string
  readonly words: readonly string[]
}

/** The line in Redis in which requests wait for some limits under one name and key. */
export interface RedisLine {
  /** Its first key, which no other line has. */
  readonly name: string
  /** False while the client cannot be asked. */
  readonly isReady: boolean
  /** Why the client cannot be asked; undefined if it can. */
  readonly failing: StoreError | undefined
  /** Calls back whenever the client becomes ready; the returned function unsubscribes. */
  onReady(listener: () => void): () => void
  /** `endsAt`: by `performance.now()`, the last moment at which the ask may be carried out. Rejects with `StoreError`. */
  ask(ask: RedisLineAsk, endsAt: number): Promise<unknown>
}

export class ScriptedLine implements RedisLine {
  readonly #line: readonly string[]
  readonly #marks: string
  /** For each limit its state, then its block list, then its note. */
  readonly #states: readonly string[]
  readonly #limits: readonly Limit[]

  readonly #scripts: StoreScripts
  readonly #tag: number

  constructor(scripts: StoreScripts, charges: readonly Charge[], tag: number) {
    const { keys } = scripts
    this.#scripts = scripts
    this.#tag = tag
    this.#line = keys.lineOf(charges, tag)
    this.#marks = keys.marksOf(charges, tag)
    this.#states = [
      ...charges.map(charge => keys.keyOf(charge, tag)),
      ...charges.map(charge => keys.blockListOf(charge, tag)),
      ...charges.map(charge => keys.noteOf(charge, tag)),
    ]
    this.#limits = charges.map(({ limit }) => limit)
  }

  get name(): string {
    return this.#line[0]
  }

  get isReady(): boolean {
    return this.#scripts.port.state() !== 'down'
  }

  get failing(): StoreError | undefined {
    return notConnected(this.#scripts.port.state())
  }

  onReady(listener: () => void): () => void {
    return this.#scripts.port.onReady(listener)
  }

  ask({ member, replaces, words }: RedisLineAsk, endsAt: number): Promise<unknown> {
    const records = [this.#record(member), this.#record(replaces === '' ? member : replaces)]
    const channel = waitersChannel(this.#scripts.keys.prefix)
    return this.#scripts.run({
      script: acquire,
      tag: this.#tag,
      keys: [...this.#line, ...records, this.#marks, ...this.#states],
      args: nowMs => [channel, ...limitArguments(this.#limits, () => nowMs), ...words],
      endsAt,
      isNumbered: true,
    })
  }

  #record(member: string): string {
    return `${this.name}:sent:${member}`
  }
}
