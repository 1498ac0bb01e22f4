import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { START } from './stories.js'

/** What a store may leave out, and none of ours does. */
export const OFFERS = ['giveBack', 'charge', 'block', 'close', 'countsCalendars'] as const

/** A store that can do all that is asked of any. */
export type WholeStore = Store & Required<Pick<Store, (typeof OFFERS)[number]>>

export interface StoreMaker {
  /** A new store without anything in it, or with nothing under the keys of the others. */
  make(clock: ManualClock): WholeStore
  /** true: all that a store promises is tested on this one. */
  whole?: true
  /** Before the first and after the last test. */
  start?(): Promise<unknown>
  stop?(): Promise<unknown>
}

/** Runs work on a store of its own and its clock. */
export function benchesOf(maker: StoreMaker) {
  return async (work: (bench: { store: WholeStore; clock: ManualClock }) => Promise<void>, at = START) => {
    const clock = new ManualClock(at)
    const store = maker.make(clock)
    await work({ store, clock })
    await store.close()
  }
}
