import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { RecordKeys, STEP_MS, stepOf } from '../../src/dashboard/record-keys.js'
import { parsePolicy } from '../../src/index.js'
import { limitFacts, limitId } from '../../src/redis/object-index.js'
import { portOf } from '../../src/redis/port-of.js'
import { runScript } from '../../src/redis/run-script.js'
import { dashboardReport } from '../../src/redis/scripts.js'
import { RedisServer } from '../support/redis-server.js'
import { OpenDashboard } from './open-dashboard.js'

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

test('an alert shows since when so much is refused, also while the current step has no refusals, and ignores earlier refusals', async () => {
  const client = redis.client()
  const keys = new RecordKeys('spillway')
  const [limit] = parsePolicy('5/1m')
  const id = limitId('login', limit)
  const facts = JSON.stringify(limitFacts('login', limit, { store: 'redis' }))
  const now = stepOf(Date.now())
  let number = 0
  // Refused 40 steps ago, calm, then for four steps until the one before this.
  for (const [ago, counts] of [
    [40, '1,99'],
    [20, '100,0'],
    [5, '100,0'],
    [4, '50,50'],
    [3, '50,50'],
    [1, '50,50'],
    [0, '100,0'],
  ] as const) {
    const all = [...keys.processes, keys.sums(now - ago), ...keys.index]
    const args = [
      String(++number),
      String(now - ago),
      'p',
      '{}',
      '',
      '1',
      id,
      `${counts},0,0,100,0,0,0`,
      '86400000',
      '10000',
      id,
      facts,
    ]
    await runScript(portOf(client, 'test'), dashboardReport, all, args)
  }
  const page = await OpenDashboard.start({ client, authorize: () => 'read' })
  const { alerts } = await page.view({ page: 'limits' })
  expect(alerts).toMatchObject([{ title: expect.stringContaining('login refuses'), since: (now - 4) * STEP_MS }])
  await page.close()
})
