import { describe, expect, test } from '@jest/globals'
import { LOCAL_SUITE, runSuite } from '../support/bottleneck-suite.js'

const MINUTE = 60_000

describe('the tests of bottleneck 2.19.5 itself', () => {
  test(
    'in one process all 75 pass with the light edition',
    async () => {
      expect(await runSuite('bottleneck/light.js', LOCAL_SUITE)).toEqual({ passed: 75, failures: [] })
    },
    3 * MINUTE,
  )
})
