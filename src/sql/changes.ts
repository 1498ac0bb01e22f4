import { measure, measureTogether, type State } from '../limiter/algorithms/registry.js'
import type { BlockRule, Denials, Strikes } from '../limiter/block-rule.js'
import { changesOf, refund, spend } from '../limiter/changes/changes.js'
import { isEmptyNote, newNote, type RefundNote, resetNote, settleableMs } from '../limiter/changes/refund-note.js'
import type { Verdict } from '../limiter/core/decision.js'
import type { Limit } from '../limiter/core/limit.js'
import type { CountedLimit, Reply } from '../limiter/port.js'
import type { ChargeReceipt, ClockSteps } from '../limiter/store.js'
import type { KeptLimit, RowDraft } from './key-row.js'
import { pack, unpack } from './state-text.js'

/** A change of some rows, or a look at them, all at one moment. */
export interface Change {
  /** The keys of its rows, each once. */
  readonly keys: readonly string[]
  /** By `performance.now()`: after this it is useless and is not carried out. */
  readonly endsAt: number
  /**
   * Changes the drafts, which are in the order of `keys`. Called again, with other drafts, if another process has
   * changed a row meanwhile.
   */
  apply(drafts: readonly RowDraft[], nowMs: number): void
  /** It is written, as it was applied last; `nowMs` is its moment. */
  done(nowMs: number): void
  /** It failed. If it was being written, nobody knows whether it has been. */
  reject(error: unknown): void
}

/** Carries out changes, in one of the two ways that databases allow. */
export interface ChangeRunner {
  run(change: Change): void
  /** True until the database has answered this process for the first time. */
  readonly isFirst: boolean
}

/** Takes the first of the waiting changes, as many as have so many rows; at least one. */
export function takeChanges(waiting: Change[], mostRows: number): Change[] {
  let rows = 0
  for (const { keys } of waiting) rows += keys.length
  if (rows <= mostRows) return waiting.splice(0)
  const different = new Set<string>()
  let count = 0
  for (const change of waiting) {
    for (const key of change.keys) different.add(key)
    if (different.size > mostRows && count > 0) break
    count++
  }
  return waiting.splice(0, count)
}

/** The limits of a decision and the rows that hold them. */
export interface PlacedLimits {
  readonly counted: readonly CountedLimit[]
  readonly keys: readonly string[]
  /** For each limit the index of its row; undefined: all are in one row. */
  readonly rows?: readonly number[] | undefined
}

/** `consume` and `peek`. */
export class DecisionChange implements Change {
  #verdicts: readonly Verdict[] = []

  constructor(
    readonly spending: boolean,
    readonly placed: PlacedLimits,
    readonly cost: number,
    readonly endsAt: number,
    readonly reply: Reply,
  ) {}

  get keys(): readonly string[] {
    return this.placed.keys
  }

  apply(drafts: readonly RowDraft[], nowMs: number): void {
    const { counted, rows } = this.placed
    if (counted.length === 1) {
      this.#verdicts = [this.#decide(drafts[0], counted[0], nowMs)]
      return
    }
    const draftOf = (i: number) => drafts[rows?.[i] ?? 0]
    const measured = measureTogether(counted.length, this.cost, (i, cost) =>
      measureIn(draftOf(i), counted[i], nowMs, cost),
    )
    const spent = this.cost > 0 && measured.every(({ verdict }) => verdict.allowed)
    if (this.spending) measured.forEach((one, i) => void commit(draftOf(i), counted[i], nowMs, one, spent))
    this.#verdicts = measured.map(({ verdict }) => verdict)
  }

  done(nowMs: number): void {
    this.reply.resolve(this.#verdicts, performance.now(), nowMs)
  }

  reject(error: unknown): void {
    this.reply.reject(error)
  }

  #decide(draft: RowDraft, counted: CountedLimit, nowMs: number): Verdict {
    const measured = measureIn(draft, counted, nowMs, this.cost)
    if (this.spending) commit(draft, counted, nowMs, measured, this.cost > 0 && measured.verdict.allowed)
    return measured.verdict
  }
}

type Measured = ReturnType<typeof measure>

function measureIn(draft: RowDraft, counted: CountedLimit, nowMs: number, cost: number): Measured {
  const kept = draft.of(counted)
  return measure(counted.limit, kept?.state, nowMs, cost, blockedMs(kept, nowMs))
}

function blockedMs(kept: Readonly<KeptLimit> | undefined, nowMs: number): number {
  return kept?.blockedUntil === undefined ? 0 : Math.max(0, kept.blockedUntil - nowMs)
}

/**
 * A refusal writes only what would else be lost: a state that was corrected because the clock ran back, or one that
 * matters for longer under this limit.
 */
function commit(
  draft: RowDraft,
  counted: CountedLimit,
  nowMs: number,
  { verdict, next }: Measured,
  spent: boolean,
): void {
  if (spent) {
    const kept = draft.change(counted)
    kept.state = next
    lasts(kept, nowMs + verdict.resetAfterMs)
    return
  }
  const kept = draft.of(counted)
  if (kept?.state === undefined) return
  if (nowMs < draft.base.at && next !== undefined && !isSame(counted.limit, kept.state, next))
    draft.change(counted).state = next
  const until = nowMs + verdict.resetAfterMs
  if (!verdict.allowed && until > kept.until) lasts(draft.change(counted), until)
}

function isSame({ algorithm }: Limit, a: State, b: State): boolean {
  return String(pack(algorithm, a)) === String(pack(algorithm, b))
}

function lasts(kept: KeptLimit, until: number): void {
  if (until > kept.until) kept.until = until
}

function keepState(draft: RowDraft, counted: CountedLimit, state: State, nowMs: number): void {
  const { limit } = counted
  const kept = draft.change(counted)
  kept.state = state
  // At quota 0 a bucket keeps its level for the limit after it, at least for a window.
  const lasting = limit.quota > 0 ? limit : { ...limit, quota: 1, burst: 1 }
  lasts(kept, nowMs + measure(lasting, state, nowMs, 0).verdict.resetAfterMs)
}

/** The settlement note of a limit, to write to. */
function noteOf(kept: Readonly<KeptLimit> | undefined, nowMs: number): RefundNote {
  const { note, noteUntil = 0 } = kept ?? {}
  return note === undefined || noteUntil <= nowMs ? newNote() : { ...note, gaps: [...note.gaps] }
}

function keepNote(draft: RowDraft, counted: CountedLimit, note: RefundNote, nowMs: number): void {
  if (isEmptyNote(note)) return
  const kept = draft.change(counted)
  kept.note = note
  // Decisions of the limit before a change may be settled for longer than those of the present one.
  kept.noteUntil = Math.max(nowMs + settleableMs(counted.limit), kept.noteUntil ?? 0)
  lasts(kept, kept.noteUntil)
}

export function refundIn(draft: RowDraft, counted: CountedLimit, nowMs: number, cost: number): void {
  const { limit } = counted
  const kept = draft.of(counted)
  const note = noteOf(kept, nowMs)
  const next = refund(limit, kept?.state, nowMs, cost, note)
  if (next === undefined) return
  keepState(draft, counted, next, nowMs)
  keepNote(draft, counted, note, nowMs)
}

export function giveBackIn(
  draft: RowDraft,
  counted: ChargeReceipt,
  nowMs: number,
  units: number,
  steps: ClockSteps,
): void {
  const { limit, chargedAt } = counted
  const kept = draft.of(counted)
  if (kept?.state === undefined || steps.isDoubtful(chargedAt)) return
  // A copy of its own: a log is changed in place.
  const state = unpack(limit.algorithm, pack(limit.algorithm, kept.state))
  const note = noteOf(kept, nowMs)
  changesOf(limit).giveBack(limit, state, nowMs, units, counted, note)
  draft.change(counted).state = state
  keepNote(draft, counted, note, nowMs)
}

export function chargeIn(draft: RowDraft, counted: CountedLimit, nowMs: number, cost: number): void {
  const next = spend(counted.limit, draft.of(counted)?.state, nowMs, cost)
  if (next !== undefined) keepState(draft, counted, next, nowMs)
}

export function blockIn(draft: RowDraft, counted: CountedLimit, nowMs: number, forMs: number): void {
  if (forMs === 0 && draft.of(counted)?.blockedUntil === undefined) return
  const kept = draft.change(counted)
  kept.blockedUntil = forMs > 0 ? nowMs + forMs : undefined
  lasts(kept, nowMs + forMs)
}

/** As if never used; blocks stay. */
export function resetIn(draft: RowDraft, counted: CountedLimit, nowMs: number): void {
  const { limit } = counted
  const kept = draft.of(counted)
  if (kept?.state === undefined) return
  const isUsed = limit.quota === 0 || measure(limit, kept.state, nowMs, 0).verdict.resetAfterMs > 0
  draft.change(counted).state = undefined
  if (isUsed && changesOf(limit).notesResets) keepNote(draft, counted, resetNote(nowMs), nowMs)
}

export function strikeIn(
  draft: RowDraft,
  counted: CountedLimit,
  nowMs: number,
  denials: Denials,
  rule: BlockRule,
): Strikes {
  const before = draft.of(counted)
  const ms = blockedMs(before, nowMs)
  if (ms > 0) return { blockedMs: ms, isNew: false, left: 0, resetAfterMs: 0 }
  const { strikes, next } = rule.strike(denials, { denials: before?.denials, blocks: before?.blocks }, nowMs)
  const kept = draft.change(counted)
  kept.denials = next.denials
  kept.blocks = next.blocks
  for (const [counts, state] of [
    [rule.denials, next.denials],
    [rule.blocks, next.blocks],
  ] as const) {
    lasts(kept, nowMs + measure(counts, state, nowMs, 0).verdict.resetAfterMs)
  }
  if (strikes.isNew) {
    kept.blockedUntil = nowMs + strikes.blockedMs
    lasts(kept, kept.blockedUntil)
  }
  return strikes
}
