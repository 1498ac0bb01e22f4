/** The data that the dashboard's server sends to its page: types only, for both. Moments are ms since the epoch by the clock of the Redis server. */
import type { LimitState } from '../live/live-limit.js'
import type { LimitFacts } from './look/format.js'

/** The common beginning of all answers. */
export interface Frame {
  /** Now, by the Redis server. */
  readonly now: number
  /** When the shown data was read. */
  readonly readAt: number
  /** Set if Redis does not answer: since when, and its error. */
  readonly failing?: { readonly since: number; readonly reason: string }
  readonly access: 'read' | 'write'
  readonly user?: string
  readonly status: Status
  readonly alerts: readonly AlertView[]
  /** All that have reported. */
  readonly services: readonly string[]
  /** Why limits cannot be changed here; undefined: they can. */
  readonly noLive?: string
  /** False: no process has reported, and no object is known. */
  readonly installed: boolean
}

interface Status {
  readonly services: number
  /** Heard of lately. */
  readonly processes: number
  /** Not heard of lately: idle, or gone. */
  readonly silent: number
  readonly answerMs?: number
  readonly perSecond: number
  readonly refusedShare: number
  readonly degradedShare: number
}

export interface AlertView {
  readonly id: string
  readonly title: string
  /** The name with which the title begins. */
  readonly subject?: string
  /** The limit's own name, where the title names its limiter. */
  readonly limitName?: string
  readonly text?: string
  /** A key in `text`, shown apart. */
  readonly key?: KeyView
  readonly since?: number
  /** The row, or the queue, that it is about. */
  readonly limit?: string
  readonly queue?: string
}

/** A key as it may be shown; `ref` stands for it in a request. */
export interface KeyView {
  readonly text: string
  readonly ref: string
}

/** How far back charts go. */
export type Range = '15m' | '1h' | '6h' | '24h'

export interface Series {
  /** The moment of the first value: that of the first data, if it is later than the beginning of the range. */
  readonly from: number
  /** From one value to the next: coarser where data of more than 15 minutes, or of more than an hour, is shown. */
  readonly stepMs: number
  readonly allowed: ReadonlyArray<number | null>
  readonly refused: ReadonlyArray<number | null>
}

export interface LimitRow {
  readonly id: string
  readonly limiter: string
  readonly limit: string
  readonly facts: LimitFacts
  readonly per?: string
  readonly allowed: number
  readonly refused: number
  /** Refused in shadow mode: let through. */
  readonly shadow: number
  readonly share: number
  readonly degraded: number
  readonly live?: LiveView
  readonly changeable: boolean
  /** All limits of its limiter that are in force, as their author wrote them; if they can be changed. */
  readonly policy?: string
  /** The limiter has other limits by now. */
  readonly replaced?: true
  readonly series: Series
  readonly open?: OpenLimit
}

export interface OpenLimit {
  readonly mostRefused: readonly KeyRate[]
  readonly mostAsking: readonly KeyRate[]
  /** Who decided, as shares. */
  readonly sources: Readonly<Partial<Record<'redis' | 'memory' | 'lease' | 'remembered' | 'fallback', number>>>
  readonly breaker?: { readonly processes: number; readonly since: number; readonly reason: string }
}

export interface KeyRate {
  readonly key: KeyView
  readonly limiter: string
  readonly perSecond: number
  /** Of all of this limiter. */
  readonly share: number
}

/** A live limit in force. */
export interface LiveView {
  readonly policy: string
  readonly words: string
  readonly default: string
  readonly until?: number
  readonly by?: string
  readonly at?: number
}

export interface LimitsView extends Frame {
  readonly page: 'limits'
  readonly range: Range
  readonly rows: readonly LimitRow[]
  readonly total: number
  readonly queues: readonly QueueRow[]
  readonly moreQueues: number
  readonly shared: readonly SharedRow[]
  readonly moreShared: number
}

/** An object that is known and has not answered in time, or not as this version expects. */
export interface UnreadRow {
  readonly name: string
  readonly unread: string
}

export interface QueueCounts {
  readonly name: string
  readonly unread?: undefined
  readonly ready: number
  readonly delayed: number
  readonly unacked: number
  readonly dead: number
  readonly nextDueAt: number | null
  readonly paused: boolean
}

/** A queue; what processes tell of it is known also where Redis does not answer. */
export type QueueRow = (QueueCounts | UnreadRow) & {
  readonly late50?: number
  readonly late99?: number
  readonly attempts?: number
}

/** A shared rate, a semaphore, or the places of a concurrency limit. */
export interface SharedRow {
  readonly kind: 'rate' | 'semaphore' | 'concurrency' | 'limiter'
  readonly name: string
  /** Why nothing of it is known. */
  readonly unread?: string
  /** Permits in use, of how many; absent: nothing is set, or it is not known. */
  readonly inUse?: number
  readonly of?: number
  /** Of a rate: its interval. */
  readonly intervalMs?: number
  readonly mode?: string
  /** Of a rate: followLoad changes it with the load, within these bounds per interval. */
  readonly steered?: { readonly min: number; readonly max: number; readonly intervalMs: number }
  readonly waiting: number
  /** How long the first has waited. */
  readonly firstMs?: number
  readonly holders?: readonly HolderView[]
  readonly moreHolders?: number
}

/** A process as on the page of processes. */
export interface HolderName {
  readonly service: string
  readonly host: string
  readonly pid: number
  readonly silent?: true
}

/** Permits that are held: a lease of a semaphore, or the place of a request. */
export interface HolderView {
  /** Of a lease. */
  readonly id?: string
  readonly permits: number
  readonly since?: number
  /** Of a lease. */
  readonly expiresAt?: number
  /** 'new': not reported yet; 'untold': its process holds more than it tells; 'unknown': its process reports nothing. */
  readonly by: HolderName | 'new' | 'untold' | 'unknown'
}

export interface WaitingView extends Frame {
  readonly page: 'waiting'
  readonly shared: readonly SharedRow[]
  readonly moreShared: number
}

export interface DeadView {
  readonly id: string
  readonly reason: string
  readonly attempts: number
  readonly diedAt: number
  /** The length of the payload in characters. */
  readonly length: number
  /** Its beginning; only where keys are shown in full. */
  readonly payload?: string
}

export interface QueuesView extends Frame {
  readonly page: 'queues'
  readonly queues: ReadonlyArray<QueueRow & { readonly letters: readonly DeadView[] }>
  readonly moreQueues: number
}

interface KeyLimitView {
  readonly id: string
  readonly limit: string
  readonly facts: LimitFacts
  readonly per?: string
  readonly remaining: number
  readonly most: number
  readonly resetAfterMs: number
  readonly retryAfterMs: number
}

/** The state of a key under one limiter. */
export interface KeyLimiterView {
  readonly limiter: string
  readonly limits: readonly KeyLimitView[]
  readonly blockedUntil?: number
  readonly blockedBy?: string
  readonly live?: LiveView
  readonly changeable: boolean
  /** All limits of the limiter that are in force for keys without their own, as their author wrote them. */
  readonly policy: string
}

export interface KeyFound {
  readonly key: KeyView
  /** The key as counted, if it differs: an address in its usual notation. */
  readonly as?: string
  readonly limiters: readonly KeyLimiterView[]
  /** How many limiters were asked: those first whose reports name the key, then the worst. */
  readonly asked: number
  /** How many were not asked, because there are too many. */
  readonly unasked: number
  /** How many of them could not be read: another version's, or slow. */
  readonly unread: number
}

interface BlockRow {
  readonly limiter: string
  readonly key: KeyView
  readonly until: number
  readonly by?: string
}

export interface KeysView extends Frame {
  readonly page: 'keys'
  readonly found?: KeyFound
  readonly mostRefused: readonly KeyRate[]
  readonly mostAsking: readonly KeyRate[]
  readonly blocks: readonly BlockRow[]
  /** Limiters whose blocks were not read, because there are too many. */
  readonly unlisted: number
  readonly limiters: readonly string[]
}

export interface ChangeView {
  readonly id: string
  readonly at: number
  readonly user?: string
  /** What was done, in words. */
  readonly what: string
  readonly subject: string
  readonly key?: KeyView
  readonly before?: string
  readonly after?: string
  readonly until?: number
  readonly undo?: Act
}

export interface ChangesView extends Frame {
  readonly page: 'changes'
  readonly changes: readonly ChangeView[]
}

export interface ProcessView {
  readonly id: string
  readonly service: string
  readonly version: string
  readonly host: string
  readonly pid: number
  readonly startedAt: number
  readonly heardAt: number
  /** It has said that nothing happens. */
  readonly idle: boolean
  /** It was not heard of when it should have been. */
  readonly silent: boolean
  readonly perSecond: number
  readonly share: number
  readonly breaker?: { readonly since: number; readonly reason: string }
}

export interface ProcessesView extends Frame {
  readonly page: 'processes'
  readonly processes: readonly ProcessView[]
}

export type View = LimitsView | KeysView | WaitingView | QueuesView | ChangesView | ProcessesView
export type PageName = View['page']

/** The request of a page. */
export interface Ask {
  readonly page: PageName
  /** Limits: which row is open; how many rows are wanted. */
  readonly open?: readonly string[]
  readonly rows?: number
  /** Limits: of the charts; default 15m. */
  readonly range?: Range
  /** Only what this service uses. */
  readonly service?: string
  /** Keys page: the key to look up, as typed, or the `ref` of a shown one. */
  readonly key?: string
  readonly ref?: string
}

/** A key in a change: as typed, or the `ref` of a shown one. */
type KeyGiven = { readonly key: string } | { readonly ref: string }

/** A change. */
export type Act =
  | ({ readonly act: 'reset' | 'unblock'; readonly limiter: string } & KeyGiven)
  | ({ readonly act: 'block'; readonly limiter: string; readonly for: string } & KeyGiven)
  | ({
      readonly act: 'set-limit'
      readonly limiter: string
      readonly policy: string
      readonly for?: string
      /** Only while these limits hold for all keys. */
      readonly over?: string
    } & Partial<{ readonly key: string } & { readonly ref: string }>)
  | ({ readonly act: 'clear-limit'; readonly limiter: string } & Partial<
      { readonly key: string } & { readonly ref: string }
    >)
  | UndoLimit
  | UndoBlock
  | {
      readonly act: 'set-rate'
      readonly name: string
      readonly rate: number
      readonly interval: string
      /** Only while this rate holds. */
      readonly over?: { readonly rate: number; readonly intervalMs: number }
    }
  | { readonly act: 'force-release'; readonly name: string; readonly lease: string }
  | { readonly act: 'pause' | 'resume'; readonly name: string }
  | { readonly act: 'redrive'; readonly name: string; readonly id?: string }

/** Puts back what was set for a limiter or a key, unless it was changed again. */
export type UndoLimit = {
  readonly act: 'restore-limit'
  readonly limiter: string
  readonly before: LimitState
  /** The change that is undone. */
  readonly change: string
} & Partial<{ readonly key: string } & { readonly ref: string }>

/** Puts back the block that was there, or none, unless there is another one than was left. Moments of the server's clock. */
export type UndoBlock = {
  readonly act: 'restore-block'
  readonly limiter: string
  readonly before?: number
  readonly left?: number
} & KeyGiven

/** The answer to a change. */
export interface Done {
  /** In words, past tense. */
  readonly text: string
  /** Until when it holds. */
  readonly until?: number
  readonly undo?: Act
}

/** The answer to a request that was refused or failed. */
export interface Failure {
  readonly error: string
}
