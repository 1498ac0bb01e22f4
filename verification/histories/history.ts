// What a run leaves: every operation with when it was asked for and answered, and every fault. Times are ms of a clock
// that all processes of the machine share.

/** A limit as it is promised; the checker knows of no class of ours. */
export interface Limit {
  readonly algorithm: 'fixed-window' | 'sliding-window' | 'sliding-counter' | 'token-bucket' | 'leaky-bucket'
  readonly quota: number
  readonly windowMs: number
  /** Of a bucket; else the quota. */
  readonly burst: number
}

/** What an object promises; operations name it. */
export interface Subject {
  readonly name: string
  readonly kind: 'limiter' | 'rate' | 'semaphore' | 'queue'
  /** Of a limiter or a rate: all hold at once. */
  readonly limits?: readonly Limit[]
  readonly leased?: boolean
  readonly permits?: number
  readonly deadlineMs: number
  /** How long after it was asked a decision that failed may still be charged. Default: its deadline and 50 ms. */
  readonly lateMs?: number
  /** Of the quota, what each process may grant alone in one fault. */
  readonly localShare?: number
  /** How long a permit or a delivery is held by a process that says nothing. */
  readonly holdMs?: number
}

interface Asked {
  readonly id: number
  readonly process: string
  readonly subject: string
  readonly key: string
  readonly askedAt: number
  /** Absent: the process has died, or the run has ended, before. */
  readonly answeredAt?: number
  /** The outcome is not known: it may have happened. */
  readonly error?: string
}

/** `consume`, `acquire`, or a request over HTTP. */
export interface Decided extends Asked {
  readonly op: 'consume' | 'acquire' | 'request'
  readonly cost: number
  readonly allowed?: boolean
  /** Decided by the store, out of a lease of this process, remembered by it, or by the failure policy. */
  readonly source?: 'store' | 'lease' | 'memory' | 'fallback' | 'open' | 'closed'
  readonly remaining?: number
  readonly retryAfterMs?: number
  /** Of `acquire`. */
  readonly timeoutMs?: number
  /** Of one that came after its deadline: for how long its process had no processor then. */
  readonly starvedMs?: number
  /** Of a request: its status, its Retry-After, and whether its handler ran. */
  readonly status?: number
  readonly retryAfter?: string
  readonly handled?: boolean
}

/**
 * A change of what a key has spent. `of` and `units`: a settlement of that decision to so many units; a refund of
 * `units`.
 */
export interface Changed extends Asked {
  readonly op: 'settle' | 'refund' | 'charge' | 'block' | 'unblock' | 'reset'
  readonly of?: number
  readonly units?: number
  readonly blockMs?: number
}

/** New limits of a subject, in force in all processes a second after the answer. */
export interface Replaced extends Asked {
  readonly op: 'limits'
  readonly limits: readonly Limit[]
}

/** A permit of a semaphore. `acquire`d with a token, held until it is `release`d. */
export interface Held extends Asked {
  readonly op: 'hold' | 'release'
  readonly permits: number
  readonly granted?: boolean
  readonly token?: number
  readonly timeoutMs?: number
  /** Of a release: the hold; and whether its holder has heard that it was lost, instead of giving it back. */
  readonly of?: number
  readonly isLost?: boolean
}

/** A message: sent, handled (from `askedAt` until `answeredAt`), acknowledged. The key is its id. */
export interface Message extends Asked {
  readonly op: 'send' | 'handle' | 'acknowledge'
  readonly delayMs?: number
  readonly attempt?: number
}

export type Operation = Decided | Changed | Replaced | Held | Message

/**
 * `hang`: a server does not answer in time. `full`: it refuses to write, also as a replica. `lost`: it lost what it
 * knew (FLUSHALL, an empty restart). `failover`: a replica took over, which may lack the last writes and has a clock of
 * its own. `moved`: keys went to a server with another clock. `clock`: a server's clock was set, or drifts. `cut`:
 * connections broke. `stopped`: the process stood still.
 */
export interface Fault {
  readonly what: 'hang' | 'full' | 'lost' | 'failover' | 'moved' | 'clock' | 'cut' | 'stopped' | 'killed'
  readonly from: number
  readonly until: number
  /** Of one that was made: when nothing stood in the way any more. `until` is when others have seen that. */
  readonly mendedAt?: number
  /** Of `stopped` and `killed`. */
  readonly process?: string
}

/** What somebody who has taken nothing finds when all others have ended. */
export interface Look {
  readonly subject: string
  readonly key: string
  readonly askedAt: number
  readonly answeredAt: number
  /** How many units can be taken at once. */
  readonly free?: number
  /** How many wait in the line. */
  readonly waiting?: number
  /** Messages that are left after a consumer has taken all that it gets. */
  readonly messages?: number
  readonly error?: string
}

/** What a process said besides: why the store failed, or what nobody handled. */
export interface Note {
  readonly process: string
  readonly kind: 'failed' | 'unhandled'
  readonly said: string
}

/** What is promised of a subject in a run in which one fault comes, as the table of operating.md has it. */
export interface Bounds {
  readonly subject: string
  /** How many times the quota of a key the store grants: once for each life of its data. */
  readonly lives: number
  /** Whether processes grant their share alone. */
  readonly alone: boolean
  /** Within so long every process has its answers from the store again. */
  readonly backMs: number
}

export interface History {
  readonly subjects: readonly Subject[]
  readonly operations: readonly Operation[]
  readonly faults: readonly Fault[]
  /**
   * Processes over HTTP: their client may send a decision twice when its connection breaks, and until the store has
   * answered they take its clock for their own.
   */
  readonly repeating?: readonly string[]
  readonly looks?: readonly Look[]
  /**
   * Processes that ended in order while they had no connection: a close waits for none, so that what they gave up or
   * gave back shortly before may never be told.
   */
  readonly unheard?: ReadonlyArray<{ readonly process: string; readonly endedAt: number }>
  /** Names of keys in Redis that have no lifetime when everything has ended, or that outlive it. */
  readonly leftKeys: readonly string[]
  /** Names of all keys that were in Redis then. */
  readonly knownKeys?: readonly string[]
  readonly notes?: readonly Note[]
  readonly bounds?: Bounds
  /** All processes have ended in order, and queues were drained. */
  readonly endedAt: number
  /** What the machine may add to a promised time. Default: `SLACK_MS`. */
  readonly slackMs?: number
  /** Who has asked so much later stands behind, however long the first message took on its way. Default: 1500. */
  readonly behindMs?: number
}

/** A promise that was broken, with the operations that show it. */
export interface Violation {
  readonly rule: string
  readonly subject: string
  readonly key: string
  readonly from: number
  readonly until: number
  readonly said: string
  readonly operations: readonly Operation[]
}

/** After the end of a fault the store decides again within so long; `lost` alone is nothing that a client notices. */
export const RECOVERY_MS: Readonly<Record<Fault['what'], number>> = {
  hang: 1000,
  full: 1000,
  lost: 0,
  failover: 5000,
  moved: 5000,
  clock: 1000,
  // The client waits for up to a second between two attempts, and the store notices up to 200 ms later.
  cut: 1200,
  stopped: 1000,
  killed: 1000,
}
/** What the machine may add to a promised time: processes stand in line for the processor. */
export const SLACK_MS = 250

/** Servers count in whole ms: what they call a second may be a ms shorter. */
export const WHOLE_MS = 1

/** When an operation was over, or by when an unknown one had its effect: scripts do nothing after their deadline. */
export function endOf(operation: Operation): number {
  return operation.answeredAt ?? operation.askedAt + 1_000
}

/** Whether an operation was answered without an error. */
export function isAnswered(operation: Operation): boolean {
  return operation.answeredAt !== undefined && operation.error === undefined
}

/** A key may begin anew, or regain what the difference of two clocks gives. */
export const ANEW = ['lost', 'failover', 'moved', 'clock'] as const
export const ANY_FAULT = Object.keys(RECOVERY_MS) as ReadonlyArray<Fault['what']>

/**
 * What lasts, in the order in which it began: a history has thousands of each kind, few of which a question concerns.
 */
export class Spans<T> {
  readonly #began: readonly T[]
  readonly #longestMs: number

  constructor(
    items: readonly T[],
    readonly fromOf: (item: T) => number,
    readonly untilOf: (item: T) => number,
  ) {
    this.#began = [...items].sort((one, two) => fromOf(one) - fromOf(two))
    this.#longestMs = items.reduce((most, item) => Math.max(most, untilOf(item) - fromOf(item)), 0)
  }

  /** Those that began before `until` and ended after `from`. */
  in(from: number, until: number): T[] {
    const found: T[] = []
    for (let at = this.#firstAt(from - this.#longestMs); at < this.#began.length; at++) {
      const item = this.#began[at]
      if (this.fromOf(item) >= until) break
      if (this.untilOf(item) > from) found.push(item)
    }
    return found
  }

  /** The place of the first one that began at this moment or later. */
  #firstAt(from: number): number {
    let [low, high] = [0, this.#began.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.fromOf(this.#began[middle]) < from) low = middle + 1
      else high = middle
    }
    return low
  }
}

const byKind = new WeakMap<readonly Fault[], Map<Fault['what'], Spans<Fault>>>()

function spansOf(faults: readonly Fault[]): Map<Fault['what'], Spans<Fault>> {
  const [fromOf, untilOf] = [({ from }: Fault) => from, ({ until }: Fault) => until]
  const of = (kind: Fault['what']) => faults.filter(({ what }) => what === kind)
  const spans = new Map(ANY_FAULT.map(kind => [kind, new Spans(of(kind), fromOf, untilOf)]))
  byKind.set(faults, spans)
  return spans
}

/** The faults of these kinds that fell into a span. */
export function faultsIn(
  { faults }: History,
  what: ReadonlyArray<Fault['what']>,
  from: number,
  until: number,
): readonly Fault[] {
  const spans = byKind.get(faults) ?? spansOf(faults)
  return what.flatMap(kind => spans.get(kind)?.in(from, until) ?? [])
}
