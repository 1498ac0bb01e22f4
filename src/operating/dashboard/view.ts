/**
 * What the dashboard's page asks, and parts of the answers: types only, for both. Moments are ms since the epoch by the
 * clock of the Redis server. The views: see `viewOf`.
 */
import type { LimitState } from '../live/live-limit.js'

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
  /** Where it is known: when its block ends. */
  readonly blockedUntil?: number
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

/**
 * A shared rate, a semaphore, the places of a concurrency limit, a Bottleneck, or a budget of a partner
 * (`politeFetch`).
 */
export interface SharedRow {
  readonly kind: 'rate' | 'budget' | 'semaphore' | 'concurrency' | 'bottleneck' | 'limiter'
  readonly name: string
  /** Why nothing of it is known. */
  readonly unread?: string
  /**
   * Permits in use, of how many; absent: nothing is set, or it is not known. Of a partner's budget they may be more: a
   * debt.
   */
  readonly inUse?: number
  readonly of?: number
  /** Of a Bottleneck: what was left when it last decided. */
  readonly reservoir?: number
  /** Of a rate: its interval. */
  readonly intervalMs?: number
  readonly mode?: string
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
  readonly since: number
  /** Of a lease. */
  readonly expiresAt?: number
  /**
   * 'new': not reported yet; 'untold': its process holds more than it tells; 'unknown': its process reports nothing.
   */
  readonly by: HolderName | 'new' | 'untold' | 'unknown'
}

export type PageName = 'limits' | 'keys' | 'waiting' | 'queues' | 'events' | 'changes' | 'processes'

/** What happened in the last day: also the marks in charts. */
export interface EventView {
  readonly id: string
  readonly kind: 'outage' | 'alert' | 'change' | 'deploy'
  readonly at: number
  /** When it ended; absent: it lasts, or took no time. */
  readonly until?: number
  readonly lasts?: boolean
  readonly title: string
  readonly text?: string
  /** Of a change. */
  readonly key?: KeyView
  readonly user?: string
  /** Where more stands about it. */
  readonly page?: 'limits' | 'queues'
}

/** An event in a chart. */
export type Mark = Pick<EventView, 'kind' | 'at' | 'title'>

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
  readonly undo?: ChangeRequest
}

/** The request of a page. */
export interface ViewRequest {
  readonly page: PageName
  /** Limits: which row is open; how many rows are wanted. */
  readonly open?: readonly string[]
  readonly rows?: number
  /** Limits: of the charts; default 15m. */
  readonly range?: Range
  /** Queues: the message to look up, by its queue and its id. */
  readonly queue?: string
  readonly id?: string
  /** Limits: only those whose names hold this text. */
  readonly text?: string
  /** Only what this service uses. */
  readonly service?: string
  /** Keys page: the key to look up, as typed, or the `ref` of a shown one. */
  readonly key?: string
  readonly ref?: string
}

/** A key in a change: as typed, or the `ref` of a shown one. */
type KeyGiven = { readonly key: string } | { readonly ref: string }

/** A change. */
export type ChangeRequest =
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
  /** Of dead letters; without ids of all. */
  | { readonly act: 'redrive' | 'discard'; readonly name: string; readonly ids?: readonly string[] }
  /** Of a message that waits: takes it out, or makes it due now. */
  | { readonly act: 'cancel-message' | 'deliver-message'; readonly name: string; readonly id: string }
  | ({ readonly act: 'show-key' } & KeyGiven)

/** Puts back what was set for a limiter or a key, unless it was changed again. */
type UndoLimit = {
  readonly act: 'restore-limit'
  readonly limiter: string
  readonly before: LimitState
  /** The change that is undone. */
  readonly change: string
} & Partial<{ readonly key: string } & { readonly ref: string }>

/**
 * Puts back the block that was there, or none, unless there is another one than was left. Moments of the server's
 * clock.
 */
type UndoBlock = {
  readonly act: 'restore-block'
  readonly limiter: string
  readonly before?: number
  readonly left?: number
} & KeyGiven

/** The answer to a change. */
export interface ChangeResult {
  /** In words, past tense. */
  readonly text: string
  /** Until when it holds. */
  readonly until?: number
  readonly undo?: ChangeRequest
}

/** The answer to a request that was refused or failed. */
export interface Failure {
  readonly error: string
}
