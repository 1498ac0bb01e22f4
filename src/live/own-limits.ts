import { ownCopy, shortKey } from '../core/short-key.js'
import type { Change } from './change.js'
import { fieldOfKey } from './keys.js'
import { LiveLimit } from './live-limit.js'
import type { LivePolicy } from './live-policy.js'
import type { LiveRecords } from './live-records.js'
import { RecentMap } from './recent-map.js'

/** Keys in one call, and keys that may wait for a call; more are asked for when they come again. */
const MOST_AT_ONCE = 500
const MOST_WAITING = 10_000
/** After a failure. */
const RETRY_MS = 250

interface OwnLimit {
  readonly field: string
  readonly limit: LiveLimit
}

/** A key whose limit is being asked for. */
interface Asked {
  readonly field: string
  /** Changes that were heard since, in their order: the answer may be older. */
  readonly changes: Change[]
}

/**
 * The limits that keys of one name have of their own, as far as this process has met the keys: bounded in memory, loaded in the background when a key
 * is first met, kept up to date by the changes that the process hears.
 */
export class OwnLimits {
  readonly #own: RecentMap<OwnLimit>
  /** Keys that are known to have none. */
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

  /** What holds for the key, from memory; undefined: the limit of the name, at least until its own is loaded. */
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

  /** A key that nobody has met here, or not lately. */
  #add(text: string, own: OwnLimit, change: Change, hadAny: boolean): void {
    if (change.from === this.records.id) this.#own.set(text, own)
    else if (!this.#own.setIfRoom(text, own)) return
    // A limit with an end does not tell what stands beneath it.
    if (hadAny && change.untilMs !== undefined) this.#ask(text, own.field)
  }

  /** Anything may have changed: known limits hold until they are loaded anew. */
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

  /** 0: with all that is asked in this turn. */
  #loadIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (!this.#closed && this.records.port.state() === 'ready') this.#load()
    }, ms)
    this.#timer.unref()
  }

  async #load(): Promise<void> {
    const batch = [...this.#asked].slice(0, MOST_AT_ONCE)
    this.#loading = true
    try {
      const { epoch, limits } = await this.records.loadKeys(
        this.name,
        batch.map(([, { field }]) => field),
      )
      // Else they are asked again when the process follows those data.
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
    // Asked anew meanwhile, because anything may have changed.
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

/** Of a key that had no limit of its own before. */
function ownOf(key: string, change: Change): OwnLimit {
  const limit = new LiveLimit(change.seq - 1)
  limit.apply(change)
  return { field: fieldOfKey(key), limit }
}
