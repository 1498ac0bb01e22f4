import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { OutageWarnings } from '../../../src/limiter/core/warnings.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

let now: number
const error = new Error('no route')
beforeEach(() => {
  now = 5000
})
afterEach(() => {
  expect(warned.types.every(type => type === 'SpillwayWarning')).toBe(true)
  expect(warned.textsOf('SPILLWAY_STORE')).toEqual(warned.texts)
})

const outage = (server = {}, meanwhile = 'all pass') =>
  new OutageWarnings(
    server,
    () => 'the store X',
    meanwhile,
    () => now,
  )

test('the third failure in a row causes one warning, and so does the first answer after it', () => {
  const told = outage()
  for (let i = 0; i < 2; i++) told.failed(error)
  told.answered()
  for (let i = 0; i < 2; i++) told.failed(error)
  expect(warned.texts).toEqual([])
  for (let i = 0; i < 9; i++) told.failed(error)
  now += 12_340
  for (let i = 0; i < 9; i++) told.answered()
  expect(warned.texts).toEqual([
    'the store X does not answer (no route): until it does, all pass',
    'the store X answers again, 12.3 s after it was found to fail',
  ])
})

test('a breaker that opens causes one warning at once, and none for the later failures', () => {
  const told = outage()
  told.failed(error)
  told.failed(error, true)
  for (let i = 0; i < 9; i++) told.failed(error)
  expect(warned.texts).toHaveLength(1)
})

test('a store that fails now and then causes one warning a minute; a long outage after that is reported late', () => {
  const told = outage()
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < 5; i++) told.failed(error)
    told.answered()
    now += 500
  }
  expect(warned.texts).toHaveLength(2)
  for (let i = 0; i < 5; i++) told.failed(error)
  now += 10_000
  told.failed(error)
  expect(warned.texts).toHaveLength(3)
  told.answered()
  expect(warned.texts).toHaveLength(4)
})

describe('several that ask one server', () => {
  test('share one pair of warnings', () => {
    const server = {}
    const [one, two] = [outage(server), outage(server, 'none pass')]
    for (let i = 0; i < 3; i++) for (const told of [one, two]) told.failed(error)
    for (const told of [two, one]) told.answered()
    expect(warned.texts).toEqual([
      'the store X does not answer (no route): until it does, all pass',
      'the store X answers again, 0.0 s after it was found to fail',
    ])
  })

  test('answers to one that waits longer do not hide that another gets none', () => {
    const server = {}
    const [hasty, patient] = [outage(server), outage(server)]
    for (let i = 0; i < 9; i++) {
      hasty.failed(error)
      patient.answered()
    }
    expect(warned.texts).toHaveLength(1)
  })

  test('the outage is over when one of them has an answer and none has failed for a second', () => {
    const server = {}
    const [gone, other] = [outage(server), outage(server)]
    for (let i = 0; i < 3; i++) gone.failed(error)
    now += 999
    other.answered()
    expect(warned.texts).toHaveLength(1)
    now += 1
    other.answered()
    expect(warned.texts).toHaveLength(2)
  })
})
