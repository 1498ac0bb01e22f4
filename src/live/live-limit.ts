import type { PolicyInput } from '../core/limit.js'
import type { Change } from './change.js'
import { type LivePolicy, livePolicy } from './live-policy.js'

/** What is set, as `LiveRecords.change` would set it again. */
export interface LimitState {
  /** The permanent limit. */
  readonly standing?: PolicyInput
  readonly temporary?: { readonly policy: PolicyInput; readonly untilMs: number }
}

/** A limit, and the end of its validity; undefined: until it is changed. */
interface Record {
  readonly live: LivePolicy
  readonly untilMs: number | undefined
}

/**
 * The limits set for a name or for one key: a permanent one, and a temporary one that holds until its end. Setting a limit without an end
 * removes both; setting one with an end replaces the earlier temporary one, and keeps the permanent one for afterwards.
 */
export class LiveLimit {
  #standing: Record | undefined
  #temporary: Record | undefined
  /** The newest change that it holds. */
  #seq: number

  /** The state after the change `seq`; a record that this version does not understand is ignored. */
  constructor(seq: number, standing?: Change, temporary?: Change) {
    this.#seq = seq
    this.#standing = recordOf(standing)
    this.#temporary = recordOf(temporary)
  }

  get seq(): number {
    return this.#seq
  }

  /** False if nothing is set, now or later. */
  get isSet(): boolean {
    return this.#standing !== undefined || this.#temporary !== undefined
  }

  /** The limit in force at a moment of the server's clock, which is only read if a limit ends; undefined: none is set. */
  at(serverNowMs: () => number): LivePolicy | undefined {
    const temporary = this.#temporary
    if (temporary !== undefined) {
      if (serverNowMs() < (temporary.untilMs as number)) return temporary.live
      this.#temporary = undefined
    }
    return this.#standing?.live
  }

  /** What is set at a moment of the server's clock. */
  stateAt(serverNowMs: number): LimitState {
    const [standing, temporary] = [this.#standing, this.#temporary]
    const untilMs = temporary?.untilMs ?? 0
    return {
      ...(standing !== undefined && { standing: standing.live.given }),
      ...(temporary !== undefined && untilMs > serverNowMs && { temporary: { policy: temporary.live.given, untilMs } }),
    }
  }

  /**
   * Applies a later change; ignores an earlier one. A policy that this version does not understand is as none: a process that starts now cannot know
   * what held before.
   */
  apply(change: Change): void {
    if (change.seq <= this.#seq) return
    this.#seq = change.seq
    if (change.given === undefined) {
      this.#standing = undefined
      this.#temporary = undefined
      return
    }
    const record = recordOf(change)
    this.#temporary = change.untilMs === undefined ? undefined : record
    if (change.untilMs === undefined) this.#standing = record
  }
}

function recordOf(change: Change | undefined): Record | undefined {
  if (change?.given === undefined) return undefined
  const live = livePolicyOf(change.name, change.given)
  return live && { live, untilMs: change.untilMs }
}

/** Many keys have the same few limits. */
const MOST_KNOWN = 1000
const KNOWN = new Map<string, LivePolicy | undefined>()

/** A policy was checked when it was set, but perhaps by a newer version: undefined if this version does not understand it. */
function livePolicyOf(name: string, given: Exclude<Change['given'], undefined>): LivePolicy | undefined {
  const text = JSON.stringify([name, given])
  if (KNOWN.has(text)) return KNOWN.get(text)
  let live: LivePolicy | undefined
  try {
    live = livePolicy(name, given)
  } catch {
    live = undefined
  }
  for (const oldest of KNOWN.keys()) {
    if (KNOWN.size < MOST_KNOWN) break
    KNOWN.delete(oldest)
  }
  KNOWN.set(text, live)
  return live
}
