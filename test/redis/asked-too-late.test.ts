import { expect, test } from '@jest/globals'
import type { ClientPort } from '../../src/redis/client.js'
import { AskedTooLate, type Copies, TimelyScripts } from '../../src/redis/timely-scripts.js'

/** A port whose server refuses everything as late, when its clock shows `nowMs`. */
const refusing = (nowMs: number): ClientPort => ({
  cluster: false,
  sendsAgain: false,
  evalsha: async () => [nowMs],
  eval: async () => [nowMs],
  state: () => 'ready',
  open() {},
  onReady: () => () => {},
  onLost() {},
  slotOf: () => 0,
  serverOf: () => '',
})

/** What becomes of an ask of a line that ends now, if its copies have had these last moments. */
const asked = (nowMs: number, copies: Copies): Promise<unknown> =>
  TimelyScripts.of(refusing(nowMs)).run({
    script: { name: 'ask', sha1: '0', source: '' },
    keys: ['k'],
    args: until => [until],
    endsAt: performance.now(),
    server: '',
    byServerClock: true,
    copies,
  })

test('an ask of a line is too late only if the last moments of all its copies are over', async () => {
  const now = Date.now()
  await expect(asked(now + 5000, { latestMs: now })).rejects.toThrow(AskedTooLate)
  const inTime = await asked(now + 5000, { latestMs: now + 6000 }).catch((error: Error) => error)
  expect(inTime).not.toBeInstanceOf(AskedTooLate)
  expect((inTime as Error).message).toContain('a copy may be in time')
})
