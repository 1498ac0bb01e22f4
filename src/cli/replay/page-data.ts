import type { LimitFacts } from '../../dashboard/look/format.js'

/** The name of the key by which requests are counted. */
export type Subject = 'ip' | 'path' | 'method' | 'user' | 'agent'

export const SUBJECTS: readonly Subject[] = ['ip', 'path', 'method', 'user', 'agent']

/** The data of the page of a replay, as JSON. Moments in seconds since the epoch; waits in ms, −1: the request never fits. */
export interface PageData {
  readonly log: string
  readonly by: Subject
  readonly requests: number
  readonly keys: number
  /** null: the log contains no request. */
  readonly from: number | null
  readonly to: number | null
  /** The notes of the text report on lines: not all read, out of order, skipped. */
  readonly notes: readonly string[]
  readonly policies: readonly PagePolicy[]
  readonly chart: PageChart
  /** The timeline of the text report. */
  readonly rows: { readonly spanSeconds: number; readonly rows: readonly PageRow[] }
  readonly tables: readonly PageTable[]
}

export interface PagePolicy {
  readonly text: string
  readonly limits: readonly LimitFacts[]
  readonly allowed: number
  readonly denied: number
  readonly share: string
  readonly deniedKeys: number
  /** null: no request was refused. */
  readonly waits: { readonly median: number; readonly ninth: number; readonly longest: number } | null
}

/** Columns of a chart; null: a long gap without requests. */
interface PageChart {
  readonly spanSeconds: number
  readonly at: ReadonlyArray<number | null>
  readonly requests: ReadonlyArray<number | null>
  /** By policy. */
  readonly denied: ReadonlyArray<ReadonlyArray<number | null>>
}

export interface PageRow {
  readonly at: number
  readonly requests: number
  readonly denied: readonly number[]
}

export interface PageTable {
  readonly subject: Subject
  readonly count: number
  readonly spanSeconds: number
  readonly at: ReadonlyArray<number | null>
  readonly rows: readonly PageSubject[]
}

export interface PageSubject {
  readonly key: string
  readonly requests: number
  readonly denied: readonly number[]
  readonly longestWaits: readonly number[]
  /** Columns of the table's chart that are not 0: [column, requests, refused by each policy]. */
  readonly activity: ReadonlyArray<readonly number[]>
}
