// One of the processes of a storm: asks for a few keys all the time, and writes down every unit that it was granted, at
// once, so that nothing is lost when it is killed. Run by verification/faults/storm.test.ts, from the built package,
// because hundreds of them are started.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../../dist/index.mjs'

const [, , file, settingsText] = process.argv
const { ports, name, policy, localShare, keys, loops, deadline } = JSON.parse(settingsText)
const log = openSync(file, 'a')

const client = new Redis({ sentinels: ports.map((/** @type {number} */ port) => ({ host: '127.0.0.1', port })), name })
client.on('error', () => {})

/**
 * What the server answered to a batch: its time, then two numbers for each unit granted and three for each refusal.
 * @param {readonly string[]} batch
 * @param {unknown} reply
 */
function note(batch, reply) {
  if (!Array.isArray(reply) || reply.length < 2) return
  let at = 1
  let lines = ''
  for (const key of batch) {
    const granted = Number(reply[at]) >= 0
    at += granted ? 2 : 3
    if (granted) lines += `redis ${reply[0]} ${reply[0]} ${key}\n`
  }
  if (lines !== '') writeSync(log, lines)
}

for (const verb of /** @type {const} */ (['evalsha', 'eval'])) {
  const send = client[verb].bind(client)
  Object.assign(client, {
    /** @type {(script: string, count: number, ...rest: string[]) => Promise<unknown>} */
    async [verb](script, count, ...rest) {
      const reply = await send(script, count, ...rest)
      // The first keys are the list of blocked keys and the marks of waiting lines.
      note(rest.slice(2, count), reply)
      return reply
    },
  })
}

const limiter = new RateLimiter({
  policy,
  store: new RedisStore(client, { prefix: 'storm' }),
  localShare,
  deadline,
})

for (let i = 0; i < loops; i++) {
  void (async () => {
    for (;;) {
      const askedAt = Date.now()
      const { key, allowed, degraded } = await limiter.consume(`k${Math.floor(Math.random() * keys)}`)
      if (allowed && degraded) writeSync(log, `local ${askedAt} ${Date.now()} ${key}\n`)
      await pause(5)
    }
  })()
}
