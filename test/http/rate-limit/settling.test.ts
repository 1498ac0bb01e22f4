import { expect, test } from '@jest/globals'
import { giveBack } from '../../../src/http/rate-limit/settling.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { StubStore } from '../../support/stub-store.js'
import { freshVerdict } from '../../support/verdicts.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

test('in an outage the settlements of a limiter that fail cause one warning a minute', async () => {
  const store: StubStore = Object.assign(new StubStore(), { giveBack: () => store.act() })
  store.answer = async charges => charges.map(({ limit }) => ({ ...freshVerdict(limit), resetAfterMs: 60_000 }))
  const limiters = ['a', 'b'].map(name => new RateLimiter({ policy: '100/1m', store, name, observer: {} }))
  for (const limiter of limiters) {
    for (let i = 0; i < 4; i++) {
      const decision = await limiter.consume('k')
      store.act = async () => {
        throw new Error('down')
      }
      await giveBack({ limiter, key: 'k', decision, paysLater: false })
    }
  }
  expect(warned.codes).toEqual(['SPILLWAY_SETTLE', 'SPILLWAY_SETTLE'])
})
