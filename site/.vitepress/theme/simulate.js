import { MemoryStore, parsePolicy, RateLimiter } from 'spillway'
import { ManualClock } from 'spillway/testing'

export const ALGORITHMS = ['sliding-window', 'token-bucket', 'leaky-bucket', 'fixed-window', 'sliding-counter']
const WITH_BURST = ['token-bucket', 'leaky-bucket']
/** How many requests are shown: of a large quota, one bar stands for several units, and a long pattern is cut. */
const MOST = 12_000
const MOST_QUOTA = 300

/**
 * When one client asks, in ms: the moments of its requests, in order. `windowMs` and `quota` are those of the policy.
 * @type {Record<string, { title: string, moments: (asked: { windowMs: number, quota: number }) => number[] }>}
 */
export const TRAFFIC = {
  burst: {
    title: 'a burst of twice the quota, then one by one',
    moments: ({ windowMs, quota }) => [...Array(2 * quota).fill(0), ...evenly(quota, windowMs / 4, 2 * windowMs)],
  },
  edge: {
    title: 'two bursts around the end of a window',
    moments: ({ windowMs, quota }) => [0, ...Array(quota).fill(windowMs * 0.95), ...Array(quota).fill(windowMs * 1.05)],
  },
  even: {
    title: 'evenly, at the rate of the policy',
    moments: ({ windowMs, quota }) => evenly(2 * quota, 0, 2 * windowMs),
  },
  fast: {
    title: 'evenly, at three times that rate',
    moments: ({ windowMs, quota }) => evenly(6 * quota, 0, 2 * windowMs),
  },
}

/** @param {number} count @param {number} from @param {number} to */
function evenly(count, from, to) {
  return Array.from({ length: count }, (_, i) => from + ((to - from) * i) / count)
}

/**
 * The policy as it is written, and, if it is one limit, under each algorithm. Throws `PolicyError`.
 * @param {string} text
 */
export function variantsOf(text) {
  const limits = parsePolicy(text)
  const [{ quota, windowMs, burst, algorithm, calendar }] = limits
  if (limits.length > 1 || calendar !== undefined) return [{ name: text, policy: text }]
  return ALGORITHMS.map(name => {
    const wide = WITH_BURST.includes(name) && WITH_BURST.includes(algorithm) && burst !== undefined ? { burst } : {}
    return { name, policy: { quota, window: windowMs, algorithm: name, ...wide } }
  })
}

/**
 * What happens to each request of a client.
 * @param {import('spillway').PolicyInput} policy
 * @param {keyof typeof TRAFFIC} traffic
 */
export async function simulate(policy, traffic) {
  const limits = parsePolicy(policy)
  const windowMs = Math.max(...limits.map(limit => limit.windowMs))
  const quotas = limits.map(limit => limit.quota)
  // No request may cost more than the smallest limit holds.
  const units = Math.max(1, Math.min(Math.ceil(Math.max(...quotas) / MOST_QUOTA), ...quotas))
  const quota = Math.min(Math.floor(Math.max(...quotas) / units), 100_000)
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const store = new MemoryStore({ clock })
  const limiter = new RateLimiter({ policy, store })
  const startedAt = clock.now()
  const requests = []
  const moments = TRAFFIC[traffic].moments({ windowMs, quota })
  for (const moment of moments.slice(0, MOST)) {
    const atMs = Math.round(moment)
    clock.set(startedAt + atMs)
    const { allowed, remaining, retryAfterMs, delayMs } = await limiter.consume('client', units)
    requests.push({ atMs, allowed, remaining, backAtMs: allowed ? undefined : atMs + retryAfterMs, delayMs })
  }
  await limiter.close()
  const passedAt = requests.filter(({ allowed }) => allowed).map(({ atMs }) => atMs)
  return {
    requests,
    units,
    isCut: moments.length > MOST,
    endMs: requests.at(-1)?.atMs ?? 0,
    passed: passedAt.length,
    mostInWindow: mostIn(passedAt, windowMs) * units,
  }
}

/** The most moments in any span. @param {readonly number[]} moments in order @param {number} spanMs */
function mostIn(moments, spanMs) {
  let most = 0
  let first = 0
  moments.forEach((atMs, i) => {
    while (moments[first] <= atMs - spanMs) first++
    most = Math.max(most, i - first + 1)
  })
  return most
}
