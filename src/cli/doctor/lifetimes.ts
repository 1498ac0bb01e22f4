import { keySegment } from '../../redis/keys.js'
import type { Connection } from '../redis-connection.js'
import { ReplyError } from '../redis-connection.js'
import { type Finding, ok, unseen, warning } from './finding.js'

const LONGEST_MS = 1000
const A_STEP = 1000
const MOST_LOOKED_AT = 5000
const MOST_NAMED = 3
/** The endings of limit keys: see redis-charge-keys. Keys of queues and other shared objects may live for ever. */
const OF_A_LIMIT = /:(?:(?:fw|sw|sc)\d+|tb|lb)(?::line)?$/

/** Finds limit keys without a lifetime, which every write should set: a scan of the server, within a time limit. */
export async function lifetimeFinding(connection: Connection, prefix: string): Promise<Finding> {
  const end = performance.now() + LONGEST_MS
  const forever: string[] = []
  let [cursor, looked, walked] = ['0', 0, 0]
  do {
    const reply = await connection.ask('SCAN', cursor, 'MATCH', `${escaped(keySegment(prefix))}:*`, 'COUNT', A_STEP)
    if (!Array.isArray(reply)) {
      const why = reply instanceof ReplyError ? reply.message : 'an answer that the doctor does not understand'
      return unseen('lifetimes', why, 'run the doctor as a user who may SCAN and PTTL; limiters need not')
    }
    cursor = String(reply[0])
    walked += A_STEP
    const keys = (reply[1] as readonly string[]).filter(key => OF_A_LIMIT.test(key))
    const lifetimes = await Promise.all(keys.map(key => connection.ask('PTTL', key)))
    forever.push(...keys.filter((_, i) => lifetimes[i] === -1))
    looked += keys.length
  } while (cursor !== '0' && looked < MOST_LOOKED_AT && performance.now() < end)
  const far = cursor === '0' ? 'all' : `the first ${looked} (time ran out after about ${walked} keys)`
  if (forever.length === 0) return ok('lifetimes', `${looked} keys of limits looked at, ${far}: each has a lifetime`)
  return warning(
    'lifetimes',
    `${forever.length} of ${looked} keys of limits have none, like ${forever.slice(0, MOST_NAMED).join(' ')}: they stay until they are used again`,
    'find what removed it (PERSIST, or RESTORE with a ttl of 0), and delete these keys',
  )
}

function escaped(prefix: string): string {
  return prefix.replace(/[\\*?[\]^-]/g, '\\$&')
}
