import { expect, test } from '@jest/globals'
import { chatShow } from '../../test/support/chat-show.js'

const percent = (share: number) => `${(100 * share).toFixed(1)} %`

test('eight processes with 5 000 calls of 1 to 4 000 tokens, estimates wrong by up to 3 times: the partner refuses hardly any, and its tokens are used', async () => {
  const { refused, used, chatted } = await chatShow(8, 625)
  console.log(`refused ${refused} of 5000 calls, used ${percent(used)} of the tokens`)
  for (const { order, statuses } of chatted) {
    expect(statuses).toEqual({ 200: 625 })
    // First come, first served.
    expect(order).toEqual(order.toSorted((a, b) => a - b))
  }
  expect(refused).toBeLessThanOrEqual(25)
  expect(used).toBeGreaterThanOrEqual(0.95)
}, 240_000)

test('a process that is killed costs the others nothing after an interval', async () => {
  const { used, usedBefore, seconds } = await chatShow(4, 500, 10_000)
  console.log(
    `used ${percent(usedBefore)} of the tokens, and in ${seconds.toFixed(1)} s after the kill ${percent(used)}`,
  )
  expect(used).toBeGreaterThanOrEqual(0.97 * usedBefore)
}, 120_000)
