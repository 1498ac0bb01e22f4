// One process of a run in which one fault comes: asks the only subject as fast as it answers, for keys that are new
// every 50 ms, so that each key lives through one part of the fault.
import { appendFileSync } from 'node:fs'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { connected } from './clients.js'
import type { Decided, Note } from './history.js'
import { Load } from './load.js'
import { forever, nextId, options } from './recording.js'
import { Starvation } from './starvation.js'
import { now } from './subjects.js'

const KEYS_LIVE_MS = 50
/** Half of what three processes ask in that time. */
const GRANTED_AT_ONCE = 750

const [subject] = options.subjects
const [{ quota, windowMs, algorithm }] = subject.limits ?? []
const keys = GRANTED_AT_ONCE / quota
const starvation = new Starvation()
const noted = new Set<string>()
const lines: string[] = []
const write = (line: Decided | Note) => lines.push(`${JSON.stringify(line)}\n`)
const flush = () => appendFileSync(options.file, lines.splice(0).join(''))

function note(kind: Note['kind'], said: string): void {
  if (noted.has(said)) return
  noted.add(said)
  write({ process: options.process, kind, said })
}
process.on('unhandledRejection', reason => note('unhandled', String(reason)))
process.on('uncaughtException', error => note('unhandled', String(error.stack)))
process.on('warning', warning => note('unhandled', warning.message))

const limiter = new RateLimiter({
  name: subject.name,
  policy: { quota, window: windowMs, algorithm },
  store: new RedisStore(await connected(options)),
  deadline: subject.deadlineMs,
  localShare: subject.localShare,
  observer: { storeFailed: error => note('failed', error.message) },
})

let asked = 0
async function ask(): Promise<void> {
  const [askedAt, startedAt] = [now(), performance.now()]
  const about = {
    id: nextId(),
    process: options.process,
    subject: subject.name,
    askedAt,
    op: 'consume',
    cost: 1,
  } as const
  const key = `${Math.floor(askedAt / KEYS_LIVE_MS)}.${asked++ % keys}`
  try {
    const { allowed, source: from, remaining, retryAfterMs } = await limiter.consume(key)
    const answeredAt = now()
    // Of what comes in time nobody asks why it was late.
    const isLate = answeredAt - askedAt > subject.deadlineMs
    const starvedMs = isLate ? starvation.since(startedAt + subject.deadlineMs) : undefined
    const isStored = from === 'redis' || from === 'postgres' || from === 'sqlite'
    const source = isStored ? 'store' : from === 'deny-cache' ? 'memory' : from
    write({ ...about, key, answeredAt, allowed, source, remaining, retryAfterMs, starvedMs })
  } catch (error) {
    write({ ...about, key, answeredAt: now(), error: String(error) })
  }
}

const load = new Load(ask, flush)
await forever(() => new Promise(done => setTimeout(done, 20)))
await load.end()
await limiter.close()
flush()
process.exit(0)
