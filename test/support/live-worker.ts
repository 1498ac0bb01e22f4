// A process that follows live limits and tells which are in force when it is asked. Forked by
// verification/faults/live.test.ts.
import { Redis } from 'ioredis'
import { LivePolicies } from '../../src/operating/live/live-policies.js'

/** What holds for each name, and for each key of the first name. */
export interface InForce {
  readonly names: readonly number[]
  readonly keys: readonly number[]
}

const [url, ...lists] = process.argv.slice(2)
const [names, keys] = lists.map(list => list.split(','))
const redis = new Redis(url)
redis.on('error', () => {})
// Failures are made here on purpose.
const observer = { storeFailed: () => {} }
const live = new LivePolicies(redis, { defaults: Object.fromEntries(names.map(name => [name, '1/1m'])), observer })

process.on('message', () => {
  const quota = (name: string, key?: string) => live.for(name, key)[0].quota
  process.send?.({
    names: names.map(name => quota(name)),
    keys: keys.map(key => quota(names[0], key)),
  } satisfies InForce)
})
process.once('disconnect', () => process.exit(0))
process.send?.('ready')
