import { describe, expect, test } from '@jest/globals'
import {
  CostError,
  LeaseLostError,
  NotInitializedError,
  PolicyError,
  SpillwayError,
  StaleDeliveryError,
  StoreError,
  TimeoutError,
} from '../../../src/index.js'

const KINDS = [
  [PolicyError, 'PolicyError', 'SPILLWAY_POLICY'],
  [CostError, 'CostError', 'SPILLWAY_COST'],
  [TimeoutError, 'TimeoutError', 'SPILLWAY_TIMEOUT'],
  [StoreError, 'StoreError', 'SPILLWAY_STORE'],
  [NotInitializedError, 'NotInitializedError', 'SPILLWAY_NOT_INITIALIZED'],
  [LeaseLostError, 'LeaseLostError', 'SPILLWAY_LEASE_LOST'],
  [StaleDeliveryError, 'StaleDeliveryError', 'SPILLWAY_STALE_DELIVERY'],
] as const

describe('an error of this package', () => {
  test.each(KINDS)('%p (%s) has the code %s, its own name, a cause and a stack', (Kind, name, code) => {
    const cause = new Error('below')
    const error = new Kind('what happened', { cause })
    expect(error).toBeInstanceOf(SpillwayError)
    expect(error).toBeInstanceOf(Error)
    expect({ ...error, name: error.name, message: error.message, cause: error.cause }).toEqual({
      code,
      name,
      message: 'what happened',
      cause,
    })
    expect(error.stack).toContain(`${name}: what happened`)
  })

  test('has no cause if none was given', () => {
    expect('cause' in new StoreError('alone')).toBe(false)
  })
})
