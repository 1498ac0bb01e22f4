import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import type { Bench } from './scenario.js'
import { START } from './stories.js'

export interface StoreMaker {
  /** A new store without anything in it, or with nothing under the keys of the others. */
  make(clock: ManualClock): Store
  /** true: all that a store promises is tested on this one. */
  whole?: true
  /**
   * All random cases: of each promise, default 11 500, of which at least 10 000 are denied for a time that ends; of
   * each other property, default 2000. `npm test` plays a part of them.
   */
  promises?: number
  /** true: another random test compares every field of every verdict with memory, whose random cases suffice then. */
  agrees?: true
  properties?: number
  /** Before the first and after the last test. */
  start?(): Promise<unknown>
  stop?(): Promise<unknown>
}

/** Runs work on a store of its own, or on any store whose keys nobody else uses. */
export function benchesOf(maker: StoreMaker) {
  const onBench = async (work: (bench: Bench) => Promise<void>, at = START) => {
    const clock = new ManualClock(at)
    const store = maker.make(clock)
    await work({ store, clock })
    await store.close?.()
  }
  /** Cases use keys of their own, so that stores which cost something may serve many. */
  const idle: Bench[] = []
  const onAnyBench = async (work: (bench: Bench) => Promise<void>) => {
    const clock = new ManualClock()
    const bench = idle.pop() ?? { store: maker.make(clock), clock }
    bench.clock.set(START)
    await work(bench)
    if (bench.store.close) await bench.store.close()
    else idle.push(bench)
  }
  return { onBench, onAnyBench }
}
