import { expect, test } from '@jest/globals'
import { glidePort } from '../../src/redis/glide.js'
import { TimelyScripts } from '../../src/redis/timely-scripts.js'

/** Stands for GLIDE: its answers are those that the test says. */
class AnsweringClient {
  /** The last moments of the scripts that it was asked to send. */
  readonly moments: number[] = []
  readonly isClosed = false
  answer: () => unknown = () => [Date.now(), 'done']

  async customCommand(args: readonly unknown[]): Promise<unknown> {
    this.moments.push(Number(args.at(-1)))
    return this.answer()
  }
  invokeScript(): void {}
}

const timeout = () => {
  throw Object.assign(new Error('timed out'), { name: 'TimeoutError' })
}

test('after a command without an answer, the clock of GLIDE’s server is asked for before anything is carried out', async () => {
  const client = new AnsweringClient()
  const scripts = TimelyScripts.of(glidePort(client))
  const ask = () =>
    scripts.run({
      script: { name: 'ask', sha1: '0', source: '' },
      keys: ['k'],
      args: until => [until],
      endsAt: performance.now() + 1000,
      server: '',
      byServerClock: true,
    })
  await ask()
  await ask()
  expect(client.moments[1]).toBeGreaterThan(Date.now())
  client.answer = timeout
  await expect(ask()).rejects.toThrow('timed out')
  // GLIDE may send this one long after, to a server whose clock is behind.
  await expect(ask()).rejects.toThrow('timed out')
  expect(client.moments.at(-1)).toBe(0)
  // Another server answers, whose clock is five seconds behind.
  client.answer = () => (client.moments.at(-1) === 0 ? [Date.now() - 5000] : [Date.now() - 5000, 'done'])
  await expect(ask()).resolves.toEqual([expect.any(Number), 'done'])
  expect(client.moments.at(-1)).toBeLessThan(Date.now() - 3000)
})
