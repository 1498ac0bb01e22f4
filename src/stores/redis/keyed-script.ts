import { Deadline, type Pending } from '../../core/deadline.js'
import { StoreError } from '../../core/errors.js'
import type { ClientPort } from '../../redis/client.js'
import type { Script } from '../../redis/script.js'
import { slotOf } from '../../redis/slot.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import { Turn } from './turn.js'

/** What is not answered by then has failed, and is not carried out later. */
const PATIENCE_MS = 5000
/** The server does the work of so many calls in less than 1 ms. */
const MOST_KEYS = 256

/** Who waits for what the script says of one key. */
export interface KeyedAsker {
  /** The moment of the script by the server's clock, ms, and two numbers. */
  resolve(now: number, first: number, second: number): void
  reject(error: StoreError): void
}

/**
 * Runs a script that does the same with each of its keys: the calls of one turn are one command, in their order. The script is given the keys, a
 * rule for each (or one for all) and its last moment; it answers the time and two values for each key, of which the first is a text
 * if that key failed.
 */
export class KeyedScript {
  readonly #script: Script
  readonly #port: ClientPort
  readonly #scripts: TimelyScripts
  readonly #deadline = new Deadline(PATIENCE_MS)
  readonly #turn = new Turn()
  /** By slot. Where there is no cluster all keys lie in one. Never cleared, but made anew: a Map that is cleared keeps what it held from the garbage collector. */
  #open = new Map<number, KeyedBatch>()
  readonly #flushes = () => this.flush()

  private constructor(port: ClientPort, script: Script) {
    this.#port = port
    this.#scripts = TimelyScripts.of(port)
    this.#script = script
  }

  /** One for each client, so that all who use the script share its commands. */
  static of(port: ClientPort, script: Script): KeyedScript {
    const ofPort = KEYED.get(port) ?? new Map<Script, KeyedScript>()
    const one = ofPort.get(script) ?? new KeyedScript(port, script)
    KEYED.set(port, ofPort.set(script, one))
    return one
  }

  /** Rejects the asker with `StoreError` if Redis fails, or has not answered within 5 s. */
  ask(key: string, rule: string, asker: KeyedAsker): void {
    const slot = this.#port.cluster ? slotOf(key) : 0
    let batch = this.#open.get(slot)
    if (batch === undefined || batch.keys.length === MOST_KEYS) {
      if (batch !== undefined) this.#send(slot, batch)
      else if (this.#open.size === 0) this.#turn.ends(this.#flushes)
      batch = new KeyedBatch(rule)
      this.#open.set(slot, batch)
    }
    batch.add(key, rule, asker)
  }

  /** Sends what waits for the end of the turn: another command about the same keys comes after it. */
  flush(): void {
    const open = this.#open
    this.#open = new Map()
    for (const [slot, batch] of open) this.#send(slot, batch)
  }

  #send(slot: number, batch: KeyedBatch): void {
    this.#deadline.start(batch)
    this.#turn.sent()
    this.#scripts
      .run({
        script: this.#script,
        keys: batch.keys,
        args: until => [...batch.rules, until],
        endsAt: batch.endsAt,
        server: this.#port.cluster ? this.#port.serverOf(slot) : '',
        byServerClock: true,
      })
      .then(
        reply => {
          this.#turn.answered()
          if (this.#deadline.answered(batch)) batch.answer(reply as unknown[])
        },
        cause => {
          this.#turn.answered()
          if (this.#deadline.failed(batch)) batch.expire(failure(cause))
        },
      )
  }
}

const KEYED = new WeakMap<ClientPort, Map<Script, KeyedScript>>()

/** Calls that share a command. */
class KeyedBatch implements Pending {
  readonly keys: string[] = []
  /** One for each key, or one for all. */
  rules: string[]
  readonly #askers: KeyedAsker[] = []
  endsAt = 0
  settled = false

  constructor(rule: string) {
    this.rules = [rule]
  }

  add(key: string, rule: string, asker: KeyedAsker): void {
    const count = this.keys.push(key)
    this.#askers.push(asker)
    if (this.rules.length === 1) {
      if (rule === this.rules[0]) return
      this.rules = new Array(count - 1).fill(this.rules[0])
    }
    this.rules.push(rule)
  }

  answer(reply: unknown[]): void {
    const now = Number(reply[0])
    for (let i = 0; i < this.#askers.length; i++) {
      const first = Number(reply[2 * i + 1])
      if (Number.isNaN(first)) this.#askers[i].reject(failure(new Error(String(reply[2 * i + 1]))))
      else this.#askers[i].resolve(now, first, Number(reply[2 * i + 2]))
    }
  }

  expire(error: StoreError): void {
    for (const asker of this.#askers) asker.reject(error)
  }
}

function failure(cause: unknown): StoreError {
  if (cause instanceof StoreError) return cause
  return new StoreError(`Redis failed: ${(cause as Error).message}`, { cause })
}
