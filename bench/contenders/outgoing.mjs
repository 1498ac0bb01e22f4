// politeFetch in one process: 10 000 calls wait for rates that are used up, as many of them for each partner as setup
// says, and then go away.
import { politeFetch } from '../../dist/outgoing.mjs'
import { answer, setup } from './answering.mjs'

const CALLS = 10_000
const LONG = 2 ** 30
const fetch = async () => new Response(null)

/** CPU time since `from`, µs. @param {NodeJS.CpuUsage} from */
const cpuUs = from => {
  const { user, system } = process.cpuUsage(from)
  return user + system
}

/**
 * Rates of so many calls, all of them used, that nobody gets back during the run.
 * @param {number} rate
 * @param {number} partners
 */
async function usedUp(rate, partners) {
  const urls = Array.from({ length: partners }, (_, i) => `https://partner${i}.example/things`)
  const limits = Object.fromEntries(urls.map(url => [new URL(url).origin, { rate, interval: LONG }]))
  const polite = politeFetch({ fetch, limits, maxWait: Number.POSITIVE_INFINITY })
  await Promise.all(urls.flatMap(url => Array.from({ length: rate }, () => polite(url))))
  return { polite, urls }
}

answer({
  async check() {
    const { polite, urls } = await usedUp(5, 1)
    const ending = new AbortController()
    const call = polite(urls[0], { signal: ending.signal }).then(
      () => 'sent',
      () => 'waited',
    )
    await new Promise(resolve => setTimeout(resolve, 50))
    ending.abort()
    return call
  },

  async run({ calls }) {
    const { polite, urls } = await usedUp(setup.waiting, CALLS / setup.waiting)
    let joined = 0
    let left = 0
    for (let done = 0; done < calls; done += CALLS) {
      const ending = new AbortController()
      const { signal } = ending
      const joinedFrom = process.cpuUsage()
      const all = Array.from({ length: CALLS }, (_, i) => polite(urls[i % urls.length], { signal }))
      // Until each of them stands in line.
      await new Promise(resolve => setImmediate(resolve))
      joined += cpuUs(joinedFrom)
      const leftFrom = process.cpuUsage()
      ending.abort()
      await Promise.allSettled(all)
      left += cpuUs(leftFrom)
    }
    return { calls, joined, left }
  },
})
