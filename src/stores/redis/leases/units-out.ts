import type { Verdict } from '../../../core/decision.js'
import type { Asker } from '../../store.js'

/** What an asker must know of the leases of its key. */
interface LeasesOfKey {
  readonly ttlMs: number
  /** Units that this process holds. */
  held(): number
  /** Redis has decided: the verdicts with the units that this process holds besides. */
  told(verdicts: readonly Verdict[], decidedAt: number): readonly Verdict[]
  /** See `LeaseSeller`. */
  unitsOut(): Promise<readonly number[]>
}

/**
 * An asker for a request that Redis decides under limits that may be leased. The script that decides does not look for leases, which would cost every decision:
 * only after a refusal a second call asks for how long units may be out.
 */
export function besideLeases(asker: Asker, { ttlMs, held, told, unitsOut }: LeasesOfKey): Asker {
  const resolve: Asker['resolve'] = (verdicts, answeredAt, decidedAt, lease) => {
    const all = typeof decidedAt === 'number' ? told(verdicts, decidedAt) : verdicts
    const answer = (most: (place: number) => number) =>
      asker.resolve(
        all.map((verdict, i) => capped(verdict, most(i))),
        answeredAt,
        decidedAt,
        lease,
      )
    if (all.every(verdict => verdict === capped(verdict, ttlMs))) asker.resolve(all, answeredAt, decidedAt, lease)
    else if (held() > 0) answer(() => ttlMs)
    else {
      unitsOut().then(
        outMs => answer(place => outMs[place] || Number.POSITIVE_INFINITY),
        () => answer(() => ttlMs),
      )
    }
  }
  return { endsAt: asker.endsAt, asks: server => asker.asks?.(server), resolve, reject: error => asker.reject(error) }
}

/** A refusal that does not last longer than `mostMs`, because units may come back from leases by then. A block, and a cost that never fits, are not affected. */
export function capped(verdict: Verdict, mostMs: number): Verdict {
  const { retryAfterMs, blocked } = verdict
  if (blocked || retryAfterMs <= mostMs || retryAfterMs === Number.POSITIVE_INFINITY) return verdict
  return { ...verdict, retryAfterMs: mostMs }
}
