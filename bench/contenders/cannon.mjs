// Clients by autocannon. An instance sends all requests of a second at the beginning of that second, so many small
// instances start one after the other.
import { setTimeout as sleep } from 'node:timers/promises'
import autocannon from 'autocannon'
import { answer } from './answering.mjs'

/**
 * Sends requests whose priorities take turns: as fast as they are answered, or `rate` a second. What comes in the first
 * `skipMs` does not count.
 *
 * @typedef {{ port: number, ms: number, skipMs: number, cannons?: number, connections: number, rate?: number,
 *   priorities: number[] }} Order
 * @param {Order} order
 */
async function load({ port, ms, skipMs, cannons = 20, connections, rate, priorities }) {
  /** @type {number[]} */
  const times = []
  let refused = 0
  let errors = 0
  const fromAt = performance.now() + skipMs
  const untilAt = fromAt + ms
  const all = Array.from({ length: cannons }, async (_, i) => {
    await sleep((i * 1000) / cannons)
    const cannon = autocannon({
      url: `http://127.0.0.1:${port}/`,
      connections: Math.ceil(connections / cannons),
      duration: (untilAt - performance.now()) / 1000,
      timeout: 30,
      ...(rate === undefined ? {} : { overallRate: Math.round(rate / cannons) }),
      requests: priorities.map(priority => ({ headers: { 'x-priority': `${priority}` } })),
    })
    const counts = () => performance.now() >= fromAt && performance.now() < untilAt
    cannon.on('response', (_client, status, _bytes, responseMs) => {
      if (!counts()) return
      if (status === 200) times.push(responseMs)
      else refused++
    })
    cannon.on('reqError', () => {
      if (counts()) errors++
    })
    await cannon
  })
  await Promise.all(all)
  times.sort((a, b) => a - b)
  const p99 = times[Math.floor(times.length * 0.99)] ?? Number.POSITIVE_INFINITY
  return { passed: times.length, refused, errors, p99, perSecond: (times.length / ms) * 1000 }
}

answer({
  load,
  /** Several kinds at once. */
  loads: (/** @type {Order[]} */ orders) => Promise.all(orders.map(load)),
})
