import type { Change } from './change.js'
import { type LivePolicy, livePolicy } from './live-policy.js'

/** A limit, and until when it holds; undefined: until it is changed. */
interface Record {
  readonly live: LivePolicy
  readonly untilMs: number | undefined
}

/**
 * What was set for a name or for one key: a limit that stands, and one that ends by itself and holds until then. Setting a limit without an end
 * removes both; setting one with an end replaces the other with an end, and leaves the one that stands for afterwards.
 */
export class LiveLimit {
  #standing: Record | undefined
  #temporary: Record | undefined
  /** The newest change that it holds. */
  #seq: number

  /** As it is after the change `seq`; a record that means nothing to this version counts as none. */
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

  /** What holds at a moment of the server's clock, which is only asked for where a limit ends; undefined: nothing is set. */
  at(serverNowMs: () => number): LivePolicy | undefined {
    const temporary = this.#temporary
    if (temporary !== undefined) {
      if (serverNowMs() < (temporary.untilMs as number)) return temporary.live
      this.#temporary = undefined
    }
    return this.#standing?.live
  }

  /** A change that came later; one that came earlier, or a policy that means nothing here, changes nothing. */
  apply(change: Change): void {
    if (change.seq <= this.#seq) return
    this.#seq = change.seq
    if (change.given === undefined) {
      this.#standing = undefined
      this.#temporary = undefined
      return
    }
    const record = recordOf(change)
    if (record === undefined) return
    this.#temporary = record.untilMs === undefined ? undefined : record
    if (record.untilMs === undefined) this.#standing = record
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

/** Checked when it was set, but perhaps by a version that knows more: undefined for what means nothing here. */
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
