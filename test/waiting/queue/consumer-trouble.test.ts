import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, expect, jest, test } from '@jest/globals'
import { StoreError } from '../../../src/limiter/core/errors.js'
import { ConsumerTrouble } from '../../../src/waiting/queue/consumer-trouble.js'

afterEach(() => {
  jest.restoreAllMocks()
})

function open() {
  const told: string[] = []
  const observer = { consumerFailed: ({ error }: { error: Error }) => told.push(error.message) }
  return { trouble: new ConsumerTrouble('DelayQueue "mail"', 'mail', observer), told }
}

test('a trouble that returns with the same error is told again', async () => {
  const now = jest.spyOn(performance, 'now').mockReturnValue(0)
  const { trouble, told } = open()
  const error = new StoreError('the rate was never set')
  trouble.failed('fetch', error, Number.POSITIVE_INFINITY)
  expect(told).toHaveLength(1)
  trouble.works('fetch')
  await turn()
  now.mockReturnValue(61_000)
  trouble.failed('fetch', error, Number.POSITIVE_INFINITY)
  expect(told).toHaveLength(2)
  trouble.close()
})

test('one error that several consumers report in one turn counts once', async () => {
  const { trouble, told } = open()
  const error = new StoreError('no answer')
  for (let i = 0; i < 5; i++) trouble.failed('fetch', error)
  expect(told).toEqual([])
  for (let i = 0; i < 2; i++) {
    await turn()
    trouble.failed('fetch', error)
  }
  expect(told).toEqual(['no answer'])
  trouble.close()
})

test('a rejection without a reason is told as such', () => {
  const { trouble, told } = open()
  trouble.failed('wake-up', undefined, 2000)
  expect(told).toEqual(['DelayQueue "mail": waiting for wake-ups failed: no reason was given'])
  trouble.close()
})
