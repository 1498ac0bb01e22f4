import type { Asker } from '../../store.js'
import type { AskMark } from './lease.js'

/** A request that waits for a purchase. */
export interface LeaseAsker {
  readonly cost: number
  readonly asker: Asker
}

/** The one purchase of a key in flight, and the requests that wait for it. */
export class Purchase {
  readonly askers: LeaseAsker[] = []
  /** Units needed by requests that came before it was sent. */
  need = 0
  sent = false
  /** The number of requests that came before it was sent. */
  counted = 0
  /** When it was sent. */
  mark: AskMark = { askedAt: 0, charged: 0 }
  /** See `wallOffset`, at that moment. */
  offset = 0
  /** By `performance.now()`: the purchase is given up then. */
  endsAt = Number.POSITIVE_INFINITY

  /** `lease`: the name of the new lease. `cost`: of one request. */
  constructor(
    readonly lease: string,
    readonly cost: number,
  ) {}

  join(cost: number, asker: Asker): void {
    this.askers.push({ cost, asker })
    if (this.sent) return
    this.need += cost
    this.counted++
    if (asker.endsAt !== undefined) this.endsAt = Math.min(this.endsAt, asker.endsAt)
  }
}
