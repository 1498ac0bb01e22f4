import { expect, test } from '@jest/globals'
import { leases } from '../../bench/leases/designs.js'

test.each(['1000/1s', '20000/1s', '100000/1s'].flatMap(limit => [`${limit} fixed-window`, `${limit} sliding-counter`]))(
  'in simulation 16 processes use at least 99 %% of %s, when one of them gets 95 %% of the requests',
  async policy => {
    // A sliding counter regains units until its cell ends: what is not sold by then is lost.
    const { used } = await leases({ policy, processes: 16, demand: 2, first: 0.95, windows: 4 })
    expect(used).toBeGreaterThanOrEqual(0.99)
  },
)
