/**
 * Keeps so many decisions in flight, over the keys in turn: the function that does so for some ms, and says how many
 * passed, how long they took, and what they cost this process.
 *
 * @param {(key: string) => Promise<boolean>} decide
 * @param {readonly string[]} keys
 * @param {number} inFlight
 */
export function inFlightOf(decide, keys, inFlight) {
  /**
   * One in so many decisions is timed when many are in flight: reading the clock twice for each would slow down the
   * fastest most.
   */
  const TIMED_ONE_IN = inFlight === 1 ? 1 : 16
  const latencies = new Float64Array(1 << 18)
  let timed = 0
  let decisions = 0
  let passed = 0
  let endsAt = 0
  let at = 0

  async function work(/** @type {unknown} */ _, /** @type {number} */ lane) {
    let until = 1 + (lane % TIMED_ONE_IN)
    // By the clock: decisions that are made at once leave a timer no turn.
    while (performance.now() < endsAt) {
      const key = keys[at]
      at = at + 1 === keys.length ? 0 : at + 1
      if (--until > 0) {
        if (await decide(key)) passed++
      } else {
        until = TIMED_ONE_IN
        const askedAt = performance.now()
        if (await decide(key)) passed++
        latencies[timed++ & (latencies.length - 1)] = performance.now() - askedAt
      }
      decisions++
    }
  }

  return async (/** @type {number} */ ms) => {
    timed = decisions = passed = 0
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    endsAt = startedAt + ms
    await Promise.all(Array.from({ length: inFlight }, work))
    const tookMs = performance.now() - startedAt
    const { user, system } = process.cpuUsage(cpu)
    const sorted = latencies.slice(0, Math.min(timed, latencies.length)).sort()
    const percentile = (/** @type {number} */ share) => sorted[Math.floor((sorted.length - 1) * share)]
    return { decisions, passed, ms: tookMs, p50: percentile(0.5), p99: percentile(0.99), cpuUs: user + system }
  }
}
