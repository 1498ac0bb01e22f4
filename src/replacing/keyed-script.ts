import { afterIo, Deadline, GRACE_MS, type Pending } from '../limiter/core/clock.js'
import { StoreError, shown } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import type { ClientPort } from '../redis/client.js'
import type { Script } from '../redis/script.js'
import { TimelyScripts } from '../redis/timely-scripts.js'

/** A call without an answer fails after this time, and the script does not act later. */
const PATIENCE_MS = 5000
/** The scripts compare whole seconds, so that they may still act this long after their last moment. */
const COARSE_MS = 1000 + GRACE_MS
/** The server executes this many calls in less than 1 ms. */
const MOST_KEYS = 256

/** Receives the script's answer for one key. */
export interface KeyedAsker {
  /** Two numbers, and the time of the script by the server's clock, ms, if it returns that. */
  resolve(first: number, second: number, now: number): void
  reject(error: StoreError): void
}

/**
 * Runs a script that treats each of its keys alike: the calls of one turn of the event loop become one command, in
 * their order. The script is given the keys, a rule for each (or one for all) and its last moment; it returns two
 * values for each key, of which the first is a text if that key failed, and then the time, if the caller needs it. A
 * script that runs too late returns only the time.
 */
export class KeyedScript {
  readonly #script: Script
  readonly #port: ClientPort
  readonly #scripts: TimelyScripts
  readonly #deadline = new Deadline(PATIENCE_MS)
  #open: KeyedBatch[] = []
  /**
   * In a cluster, the newest batch of each slot. Replaced every turn: a cleared Map keeps its former contents from the
   * garbage collector.
   */
  #bySlot = new Map<number, KeyedBatch>()
  #inFlight = 0
  readonly #flushes = () => this.flush()

  private constructor(port: ClientPort, script: Script) {
    this.#port = port
    this.#scripts = TimelyScripts.of(port)
    this.#script = script
  }

  /** The one instance for each client, so that all users of the script share its commands. */
  static of(port: ClientPort, script: Script): KeyedScript {
    const scripts = getOrMake(KEYED, port, () => new Map<Script, KeyedScript>())
    return getOrMake(scripts, script, () => new KeyedScript(port, script))
  }

  /** Rejects the asker with `StoreError` if Redis fails, or has not answered within 5 s. */
  ask(key: string, rule: string, asker: KeyedAsker): void {
    const { cluster } = this.#port
    const slot = this.#port.slotOf(key)
    let batch = cluster ? this.#bySlot.get(slot) : this.#open.at(-1)
    if (batch === undefined || batch.keys.length === MOST_KEYS) {
      batch = new KeyedBatch(slot, rule)
      if (cluster) this.#bySlot.set(slot, batch)
      // While no command is in flight, waiting for the calls of other callbacks gains nothing.
      if (this.#open.push(batch) === 1) {
        if (this.#port.beforeSending !== undefined) this.#port.beforeSending(this.#flushes)
        else if (this.#inFlight === 0) queueMicrotask(this.#flushes)
        else afterIo(this.#flushes)
      }
    }
    batch.add(key, rule, asker)
  }

  /** Sends calls that wait for the end of the turn, before another command about the same keys. */
  flush(): void {
    const batches = this.#open
    this.#open = []
    if (this.#port.cluster) this.#bySlot = new Map()
    for (const batch of batches) this.#send(batch)
  }

  #send(batch: KeyedBatch): void {
    this.#inFlight++
    this.#scripts.send(
      {
        script: this.#script,
        keys: batch.keys,
        args: until => [...batch.rules, until],
        endsAt: performance.now() + PATIENCE_MS - COARSE_MS,
        server: this.#port.serverOf(batch.slot),
        byServerClock: true,
        tellsTime: false,
      },
      reply => {
        this.#inFlight--
        if (this.#deadline.answered(batch)) batch.answer(reply)
      },
      error => {
        this.#inFlight--
        if (this.#deadline.failed(batch)) batch.expire(error)
      },
    )
    if (!batch.settled) this.#deadline.start(batch)
  }
}

const KEYED = new WeakMap<ClientPort, Map<Script, KeyedScript>>()

/** Calls in one command. */
class KeyedBatch implements Pending {
  readonly keys: string[] = []
  /** One rule for each key, or one for all. */
  rules: string[]
  readonly #askers: KeyedAsker[] = []
  endsAt = 0
  settled = false

  constructor(
    readonly slot: number,
    rule: string,
  ) {
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

  answer(reply: unknown): void {
    if (!Array.isArray(reply)) {
      this.expire(new StoreError(`Redis answered ${shown(reply)}, expected a list of numbers`))
      return
    }
    const now = Number(reply.at(-1))
    for (let i = 0; i < this.#askers.length; i++) {
      const first = Number(reply[2 * i])
      if (Number.isNaN(first)) this.#askers[i].reject(new StoreError(`Redis failed: ${String(reply[2 * i])}`))
      else this.#askers[i].resolve(first, Number(reply[2 * i + 1]), now)
    }
  }

  expire(error: StoreError): void {
    for (const asker of this.#askers) asker.reject(error)
  }
}
