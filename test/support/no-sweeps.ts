import { afterAll, beforeAll, jest } from '@jest/globals'
import { BudgetedSweep } from '../../src/limiter/core/maps.js'

/**
 * In the `describe` block that calls it nothing is swept by a timer: what memory has forgotten, a clock that runs back by
 * more than a second finds in no other store, and when a timer rings depends on the speed of the machine.
 */
export function withoutSweeps(): void {
  let spy: ReturnType<typeof jest.spyOn> | undefined
  beforeAll(() => {
    spy = jest.spyOn(BudgetedSweep.prototype, 'start').mockImplementation(() => {})
  })
  afterAll(() => void spy?.mockRestore())
}
