import { expect, test } from '@jest/globals'
import { parsePolicy } from '../../../src/index.js'
import { STEP_MS, stepOf } from '../../../src/operating/dashboard/records.js'
import { limitFacts, limitId } from '../../../src/operating/object-index.js'
import { testRedis } from '../../support/test-redis.js'
import { OpenDashboard } from './open-dashboard.js'
import { sendReport } from './send-report.js'

const redis = testRedis()

test('an alert shows since when so much is refused, also while the current step has no refusals, and ignores earlier refusals', async () => {
  const client = redis.client()
  const [limit] = parsePolicy('5/1m')
  const id = limitId('login', limit)
  const facts = limitFacts('login', limit, { store: 'redis' })
  const now = stepOf(Date.now())
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
    await sendReport(client, {
      stepAt: (now - ago) * STEP_MS,
      rows: [[id, `${counts},0,0,100,0,0,0`]],
      notes: [[id, facts]],
    })
  }
  const page = await OpenDashboard.start({ client, authorize: () => 'read' })
  const { alerts } = await page.view({ page: 'limits' })
  expect(alerts).toMatchObject([{ title: expect.stringContaining('login refuses'), since: (now - 4) * STEP_MS }])
  await page.close()
})
