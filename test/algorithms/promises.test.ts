import { describe, test } from '@jest/globals'
import { ALGORITHM_NAMES } from '../../src/core/limit.js'
import { MemoryStore } from '../../src/stores/memory/memory-store.js'
import { ManualClock } from '../../src/testing.js'
import { PROMISES, PROPERTIES, type Property } from '../support/properties.js'
import { forRandom } from '../support/run.js'
import { START } from '../support/stories.js'

/** As in the contract of the stores, but a case that fails is made as small as it can be. */
describe.each(ALGORITHM_NAMES)('%s', algorithm => {
  const holds = (property: Property, runs: number) =>
    forRandom(runs, async random => {
      const clock = new ManualClock(START)
      const store = new MemoryStore({ clock })
      await property({ store, clock }, 'key', algorithm, random)
      store.close()
    })
  test.each(Object.entries(PROMISES))('%s', (_, promise) => holds(promise, 40))
  test.each(Object.entries(PROPERTIES))('%s', (_, property) => holds(property, 120))
})
