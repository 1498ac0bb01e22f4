import { ownCopy, shortKey } from '../../limiter/core/short-key.js'
import { type Change, LiveLimit, type LivePolicy } from './live-limit.js'
import { fieldOfKey, type LiveRecords } from './live-records.js'

/**
 * A bounded map that keeps recently used entries: in two halves, of which the older is dropped when the younger is
 * full. A look-up takes one or two steps; the map keeps the last `size` / 2 to `size` used entries.
 */
export class RecentMap<Value> {
  readonly #half: number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()

  constructor(size: number) {
    this.#half = Math.ceil(size / 2)
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  find(key: string): Value | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) {
      this.#old.delete(key)
      this.set(key, old)
    }
    return old
  }

  set(key: string, value: Value): void {
    this.#old.delete(key)
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }

  /** Adds an entry that was not requested, unless that would remove a requested one. Returns whether it did. */
  setIfRoom(key: string, value: Value): boolean {
    if (this.size >= this.#half) return false
    this.#old.set(key, value)
    return true
  }

  delete(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
  }

  keys(): string[] {
    return [...this.#old.keys(), ...this.#young.keys()]
  }
}

/** Most keys in one call, and most keys that wait for a call; others are asked for at their next request. */
const MOST_AT_ONCE = 500
const MOST_WAITING = 10_000
/** After a failure. */
const RETRY_MS = 250

interface OwnLimit {
  readonly field: string
  readonly limit: LiveLimit
}

/** A key whose limit is being requested. */
interface Asked {
  readonly field: string
  /** Changes received since, in their order: the answer may be older. */
  readonly changes: Change[]
}

/**
 * The own limits of keys of one name, for keys that this process has seen: bounded in memory, loaded in the background
 * at a key's first request, and updated by the received changes.
 */
export class OwnLimits {
  readonly #own: RecentMap<OwnLimit>
  /** Keys known to have no own limit. */
  readonly #without: RecentMap<true>
  readonly #asked = new Map<string, Asked>()
  /** False: no key of the name has a limit of its own, and nothing has to be loaded. */
  #any = false
  #loading = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #closed = false

  /** `size`: how many keys with limits of their own, and how many without, are remembered. */
  constructor(
    readonly name: string,
    readonly records: LiveRecords,
    size: number,
    /** Whether an answer tells of the data that the process follows. */
    readonly isCurrent: (epoch: string) => boolean,
    readonly failed: (error: Error) => void,
  ) {
    this.#own = new RecentMap(size)
    this.#without = new RecentMap(size)
  }

  /**
   * The own limit of the key, from memory; undefined: the limit of the name applies, at least until the key's own is
   * loaded.
   */
  at(key: string, serverNowMs: () => number): LivePolicy | undefined {
    if (!this.#any) return undefined
    const text = shortKey(key)
    const own = this.#own.find(text)
    if (own !== undefined) return own.limit.at(serverNowMs)
    if (this.#without.find(text) === undefined) this.#ask(text, fieldOfKey(key))
    return undefined
  }

  apply(change: Change): void {
    const key = change.key as string
    const text = shortKey(key)
    this.#asked.get(text)?.changes.push(change)
    const hadAny = this.#any
    this.#any ||= change.given !== undefined
    const own = this.#own.find(text)
    if (own !== undefined) {
      own.limit.apply(change)
      this.#keep(text, own)
    } else if (this.#without.find(text)) this.#keep(text, ownOf(key, change))
    else this.#add(ownCopy(text), ownOf(key, change), change, hadAny)
  }

  /** Adds a key that this process has not seen, or not lately. */
  #add(text: string, own: OwnLimit, change: Change, hadAny: boolean): void {
    if (change.from === this.records.id) this.#own.set(text, own)
    else if (!this.#own.setIfRoom(text, own)) return
    // A change with an end does not reveal the permanent limit below it.
    if (hadAny && change.untilMs !== undefined) this.#ask(text, own.field)
  }

  /** Anything may have changed: known limits stay in force until they are loaded again. */
  reload(hasAny: boolean): void {
    this.#any = hasAny
    this.#without.clear()
    this.#asked.clear()
    if (!hasAny) this.#own.clear()
    for (const text of this.#own.keys()) {
      const field = this.#own.find(text)?.field
      if (field !== undefined) this.#asked.set(text, { field, changes: [] })
    }
    this.resume()
  }

  /** Redis answers: loads what waits. */
  resume(): void {
    if (this.#asked.size > 0 && !this.#loading) this.#loadIn(0)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #ask(text: string, field: string): void {
    if (this.#asked.size >= MOST_WAITING || this.#asked.has(text) || this.#closed) return
    this.#asked.set(ownCopy(text), { field, changes: [] })
    if (!this.#loading && this.#timer === undefined) this.#loadIn(0)
  }

  /** 0: together with all requests of this turn. */
  #loadIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (!this.#closed && this.records.port.state() === 'ready') this.#load()
    }, ms)
    this.#timer.unref?.()
  }

  async #load(): Promise<void> {
    const batch = [...this.#asked].slice(0, MOST_AT_ONCE)
    this.#loading = true
    try {
      const { epoch, limits } = await this.records.loadKeys(
        this.name,
        batch.map(([, { field }]) => field),
      )
      // Otherwise they are requested again when the process follows that data.
      if (this.isCurrent(epoch)) for (const [i, [text, asked]] of batch.entries()) this.#answer(text, asked, limits[i])
      this.#loading = false
      if (this.#asked.size > 0) this.#loadIn(this.isCurrent(epoch) ? 0 : RETRY_MS)
    } catch (error) {
      this.#loading = false
      this.failed(error as Error)
      this.#loadIn(RETRY_MS)
    }
  }

  #answer(text: string, asked: Asked, limit: LiveLimit): void {
    // Requested again meanwhile, because anything may have changed.
    if (this.#asked.get(text) !== asked) return
    this.#asked.delete(text)
    for (const change of asked.changes) limit.apply(change)
    this.#keep(text, { field: asked.field, limit })
  }

  #keep(text: string, own: OwnLimit): void {
    if (own.limit.isSet) {
      this.#without.delete(text)
      this.#own.set(text, own)
    } else {
      this.#own.delete(text)
      this.#without.set(text, true)
    }
  }
}

/** For a key without an own limit before. */
function ownOf(key: string, change: Change): OwnLimit {
  const limit = new LiveLimit(change.seq - 1)
  limit.apply(change)
  return { field: fieldOfKey(key), limit }
}
