import { keySegment } from '../../redis/keys.js'
import type { Connection } from './connection.js'
import { type Finding, ok, unseen, warning } from './finding.js'
import { ReplyError } from './replies.js'

const LONGEST_MS = 1000
const A_STEP = 1000
const MOST_LOOKED_AT = 5000
const MOST_NAMED = 3
/** How the keys of limits end: see redis-charge-keys. Those of queues and their like may live for ever. */
const OF_A_LIMIT = /:(?:fw|sw|sc|tb|lb)\d+(?::line)?$/

/** Whether keys of limits lack a lifetime, which every write gives them: a walk through the server, as far as time allows. */
export async function lifetimeFinding(connection: Connection, prefix: string): Promise<Finding> {
  const end = performance.now() + LONGEST_MS
  const forever: string[] = []
  let [cursor, looked, walked] = ['0', 0, 0]
  do {
    const reply = await connection.ask('SCAN', cursor, 'MATCH', `${escaped(keySegment(prefix))}:*`, 'COUNT', A_STEP)
    if (!Array.isArray(reply)) {
      const why = reply instanceof ReplyError ? reply.message : 'no answer that we understand'
      return unseen('lifetimes', why, 'run the doctor as a user who may SCAN and PTTL; limiters need not')
    }
    cursor = String(reply[0])
    walked += A_STEP
    const keys = (reply[1] as readonly string[]).filter(key => OF_A_LIMIT.test(key))
    const lifetimes = await Promise.all(keys.map(key => connection.ask('PTTL', key)))
    forever.push(...keys.filter((_, i) => lifetimes[i] === -1))
    looked += keys.length
  } while (cursor !== '0' && looked < MOST_LOOKED_AT && performance.now() < end)
  const far = cursor === '0' ? 'all' : `the first ${looked} (after about ${walked} keys there was no more time)`
  if (forever.length === 0) return ok('lifetimes', `${looked} keys of limits looked at, ${far}: each has a lifetime`)
  return warning(
    'lifetimes',
    `${forever.length} of ${looked} keys of limits have none, like ${forever.slice(0, MOST_NAMED).join(' ')}: they stay until they are used again`,
    'find who took it (PERSIST, or RESTORE with a ttl of 0), and delete them',
  )
}

function escaped(prefix: string): string {
  return prefix.replace(/[\\*?[\]^-]/g, '\\$&')
}
