import type { State } from '../limiter/algorithms/registry.js'
import type { RefundNote } from '../limiter/changes/refund-note.js'
import type { Clock } from '../limiter/core/clock.js'
import { StoreError, shown } from '../limiter/core/errors.js'
import { clientSegment, keySegment } from '../limiter/core/key-segment.js'
import type { AlgorithmName } from '../limiter/core/limit.js'
import { getOrMake } from '../limiter/core/maps.js'
import { hashOf, LONGEST_KEY } from '../limiter/core/short-key.js'
import { countName } from '../limiter/count-name.js'
import type { CountedLimit } from '../limiter/port.js'
import { DEFAULT_LIMITER } from '../limiter/store.js'
import { pack, unpack } from './state-text.js'

/** The version of a row that is missing, or that was added only to be locked: it holds nothing. */
export const NO_VERSION = '0'
/** The layout of a row's text, and its first word. */
export const FORMAT = '2'
/**
 * A row or a record that no longer matters is kept for this much longer, so that a clock that steps back a little still
 * finds it.
 */
export const KEPT_LONGER_MS = 60_000

/** The name of a table in SQL: with quotes, so that it may be any word. */
export function quoted(table: string): string {
  return table
    .split('.')
    .map(part => `"${part}"`)
    .join('.')
}

/** What is kept of one limit under one key. Its parts are replaced, never changed. */
export interface KeptLimit {
  /** See `countName`. */
  readonly id: string
  readonly algorithm: AlgorithmName
  /** Until when any part of it matters, ms. Only ever raised. */
  until: number
  state?: State | undefined
  blockedUntil?: number | undefined
  /** The settlement note, and until when it counts. */
  note?: RefundNote | undefined
  noteUntil?: number | undefined
  /** The counts of `BlockRule.denials` and `BlockRule.blocks`. */
  denials?: State | undefined
  blocks?: State | undefined
}

/**
 * The keys of rows: one row for each limiter and client. Different names never meet, and the database can store every
 * name.
 */
export class RowKeys {
  readonly #prefix: string
  readonly #limiters = new Map<string, string>()

  constructor(prefix: string) {
    this.#prefix = `${ascii(prefix, keySegment(prefix))}:`
  }

  of(client: string, limiter = DEFAULT_LIMITER): string {
    return this.beginning(limiter) + ascii(client, clientSegment(client))
  }

  /** What the keys of a limiter begin with. */
  beginning(limiter = DEFAULT_LIMITER): string {
    return getOrMake(this.#limiters, limiter, () => `${this.#prefix}${ascii(limiter, keySegment(limiter))}:`)
  }

  /**
   * Between which keys expired rows are removed: all, so that those of a prefix that nobody uses any more go, too; by a
   * clock of the store's own those of its prefix.
   */
  sweptRange(clock: Clock | undefined): readonly [from: string, to: string] {
    return clock === undefined ? ['', '\x7f'] : [this.#prefix, `${this.#prefix.slice(0, -1)};`]
  }
}

const PLAIN = /^[ -~]*$/
const OTHERS = /[^ -~]/g

/** A segment that every database can store, whatever its encoding: a `%` of the name itself is escaped already. */
function ascii(name: string, segment: string): string {
  if (PLAIN.test(segment)) return segment
  const escaped = segment.replace(OTHERS, unit => {
    const code = unit.charCodeAt(0)
    return code < 256 ? `%${code.toString(16).padStart(2, '0')}` : `%u${code.toString(16).padStart(4, '0')}`
  })
  return escaped.length <= LONGEST_KEY ? escaped : hashOf(name)
}

/** What is kept of one limit, as text: it is decoded when it is asked for. */
interface StoredLimit {
  readonly id: string
  readonly until: number
  readonly text: string
}

/** What a row holds, as it was written once; it never changes. */
export class KeyRow {
  /** Few: a list takes less memory than a map, and thousands of rows are kept. */
  readonly #limits: Array<KeptLimit | StoredLimit>

  private constructor(
    readonly version: string,
    /**
     * The moment of the write, ms; or a later one, if the clock has run back since a state was written that this write
     * has left as it is. Nothing reaches beyond it.
     */
    readonly at: number,
    limits: Array<KeptLimit | StoredLimit>,
    /** Letters of its text. */
    readonly size: number,
  ) {
    this.#limits = limits
  }

  /** A row that is missing. */
  static readonly none = new KeyRow(NO_VERSION, Number.NEGATIVE_INFINITY, [], 0)

  /** Throws `StoreError` if the text is of another format. */
  static decode(version: string, text: string): KeyRow {
    if (text === '') return KeyRow.none
    const [head, ...records] = text.split('\n=')
    const [format, at] = head.split(' ')
    if (format !== FORMAT) {
      throw new StoreError(
        `the table holds a row of format ${shown(format)}, this version of spillway reads format ${FORMAT}: ` +
          'expected the same version in all processes that share a table',
      )
    }
    const limits = records.map(text => {
      const end = text.indexOf('\n')
      const first = end < 0 ? text : text.slice(0, end)
      return { id: first.slice(first.indexOf(' ') + 1), until: Number.parseInt(first, 10), text }
    })
    return new KeyRow(version, Number(at), limits, text.length)
  }

  of(counted: CountedLimit): Readonly<KeptLimit> | undefined {
    const at = this.#indexOf(countName(counted))
    if (at < 0) return undefined
    const kept = this.#limits[at]
    if (!isStored(kept)) return kept
    const decoded = decodeLimit(kept, counted.limit.algorithm)
    this.#limits[at] = decoded
    return decoded
  }

  /**
   * The row after a write at a moment, its text, and until when it matters. Records that have long ceased to matter are
   * left out.
   */
  with(
    changed: readonly KeptLimit[],
    version: string,
    at: number,
  ): { readonly row: KeyRow; readonly text: string; readonly until: number } {
    const limits = this.#limits.slice()
    // How many states this write leaves as they are.
    let left = this.#limits.length
    for (const kept of changed) {
      const index = this.#indexOf(kept.id)
      if (index < 0) {
        limits.push(kept)
        continue
      }
      const before = this.#limits[index]
      limits[index] = kept
      if (isStored(before) || before.state !== kept.state) left--
    }
    const reaches = left > 0 ? Math.max(at, this.at) : at
    let until = at
    let text = `${FORMAT} ${reaches}`
    let count = 0
    for (const kept of limits) {
      if (kept.until + KEPT_LONGER_MS < at) continue
      limits[count++] = kept
      until = Math.max(until, kept.until)
      text += `\n=${isStored(kept) ? kept.text : encodeLimit(kept)}`
    }
    limits.length = count
    return { row: new KeyRow(version, reaches, limits, text.length), text, until }
  }

  #indexOf(id: string): number {
    for (let i = 0; i < this.#limits.length; i++) if (this.#limits[i].id === id) return i
    return -1
  }
}

function isStored(kept: KeptLimit | StoredLimit): kept is StoredLimit {
  return 'text' in kept
}

/**
 * Versions of rows. None was ever used by another process, so a row that was removed and added again is not taken for
 * the one before.
 */
export class Versions {
  #next: bigint | undefined

  next(): string {
    // Not while a program loads: some runtimes have no randomness then. From 2^61 to 2^62: they stay within a bigint,
    // however many follow.
    this.#next ??= (1n << 61n) + (crypto.getRandomValues(new BigUint64Array(1))[0] >> 3n)
    return String(this.#next++)
  }
}

/** One row while a batch of changes is decided: what the changes before have made of it. */
export class RowDraft {
  #changed: KeptLimit[] | undefined

  constructor(
    readonly key: string,
    readonly base: KeyRow,
  ) {}

  /** Whether there is something to write. */
  get isDirty(): boolean {
    return this.#changed !== undefined
  }

  of(counted: CountedLimit): Readonly<KeptLimit> | undefined {
    return this.#changedOf(countName(counted)) ?? this.base.of(counted)
  }

  /** A copy to change; with it the row will be written. */
  change(counted: CountedLimit): KeptLimit {
    const id = countName(counted)
    const changed = this.#changedOf(id)
    if (changed !== undefined) return changed
    const kept = this.base.of(counted)
    const copy: KeptLimit =
      kept === undefined ? { id, algorithm: counted.limit.algorithm, until: Number.NEGATIVE_INFINITY } : { ...kept }
    if (this.#changed === undefined) this.#changed = [copy]
    else this.#changed.push(copy)
    return copy
  }

  written(version: string, at: number): ReturnType<KeyRow['with']> {
    return this.base.with(this.#changed ?? [], version, at)
  }

  #changedOf(id: string): KeptLimit | undefined {
    return this.#changed?.find(kept => kept.id === id)
  }
}

/** The text of one limit: a line with the end of its time and its id, then a line for each part. */
function encodeLimit(kept: KeptLimit): string {
  const { id, algorithm, until, state, blockedUntil, note, noteUntil, denials, blocks } = kept
  let text = `${until} ${id}`
  const numbers = state === undefined ? [] : pack(algorithm, state)
  if (numbers.length > 0) text += `\ns ${numbers.join(' ')}`
  if (blockedUntil !== undefined) text += `\nb ${blockedUntil}`
  if (note !== undefined) {
    const gaps = note.gaps.flatMap(({ from, to, size }) => [from, to, size])
    const { cutAt, refunded, left, capacity } = note
    text += `\nn ${[noteUntil, cutAt, refunded, left, capacity, ...gaps].join(' ')}`
  }
  if (denials !== undefined) text += `\nd ${pack(COUNTS, denials).join(' ')}`
  if (blocks !== undefined) text += `\nk ${pack(COUNTS, blocks).join(' ')}`
  return text
}

/** The algorithm of both limits of a `BlockRule`. */
const COUNTS = 'fixed-window'

function decodeLimit({ id, until, text }: StoredLimit, algorithm: AlgorithmName): KeptLimit {
  const [, ...lines] = text.split('\n')
  const kept: KeptLimit = { id, algorithm, until }
  for (const line of lines) {
    const [part, ...words] = line.split(' ')
    const numbers = words.map(Number)
    if (part === 's') kept.state = unpack(algorithm, numbers)
    else if (part === 'b') kept.blockedUntil = numbers[0]
    else if (part === 'd') kept.denials = unpack(COUNTS, numbers)
    else if (part === 'k') kept.blocks = unpack(COUNTS, numbers)
    else if (part === 'n') {
      const [noteUntil, cutAt, refunded, left, capacity, ...rest] = numbers
      const gaps = []
      for (let i = 0; i < rest.length; i += 3) gaps.push({ from: rest[i], to: rest[i + 1], size: rest[i + 2] })
      kept.note = { cutAt, refunded, left, capacity, gaps }
      kept.noteUntil = noteUntil
    }
  }
  return kept
}
