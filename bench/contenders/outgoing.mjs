// politeFetch in one process: as many calls as setup says wait for a rate that is used up, and then go away.
import { politeFetch } from '../../dist/outgoing.mjs'
import { answer, setup } from './answering.mjs'

const URL_CALLED = 'https://partner.example/things'
const LONG = 2 ** 30
const fetch = async () => new Response(null)

/** CPU time since `from`, µs. @param {NodeJS.CpuUsage} from */
const cpuUs = from => {
  const { user, system } = process.cpuUsage(from)
  return user + system
}

/** A rate of so many calls, all of them used, that nobody gets back during the run. @param {number} rate */
async function usedUp(rate) {
  const limits = { 'https://partner.example': { rate, interval: LONG } }
  const polite = politeFetch({ fetch, limits, maxWait: Number.POSITIVE_INFINITY })
  await Promise.all(Array.from({ length: rate }, () => polite(URL_CALLED)))
  return polite
}

answer({
  async check() {
    const polite = await usedUp(5)
    const ending = new AbortController()
    const call = polite(URL_CALLED, { signal: ending.signal }).then(
      () => 'sent',
      () => 'waited',
    )
    await new Promise(resolve => setTimeout(resolve, 50))
    ending.abort()
    return call
  },

  async run({ calls }) {
    const { waiting } = setup
    const polite = await usedUp(waiting)
    let joined = 0
    let left = 0
    for (let done = 0; done < calls; done += waiting) {
      const ending = new AbortController()
      const { signal } = ending
      const joinedFrom = process.cpuUsage()
      const all = Array.from({ length: waiting }, () => polite(URL_CALLED, { signal }))
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
