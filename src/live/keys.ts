import { PolicyError, shown } from '../core/errors.js'
import { clientSegment, keySegment } from '../redis/keys.js'

/**
 * The keys of LivePolicies in Redis. One hash tag puts all of them into one slot of a cluster, so that one script changes a limit, numbers
 * the change and writes the log. A *record* and an entry of a log are the same text: see `readChange`.
 *
 * | key | kind | holds |
 * | --- | --- | --- |
 * | `P:{live}:live:state` | hash | `epoch`: a random text, new when Redis has lost its data; `seq`: the number of the newest change |
 * | `P:{live}:live:log` | list | the newest 1000 changes, newest first |
 * | `P:{live}:live:log:NAME` | list | the newest 100 changes of a name and of its keys, newest first |
 * | `P:{live}:live:names` | sorted set | names, by the moment (ms) at which a process registered them last |
 * | `P:{live}:live:defaults` | hash | name → the policy of its default, as `storedPolicy` writes it |
 * | `P:{live}:live:limits` | hash | name → record of the limit that was set without an end |
 * | `P:{live}:live:temporary` | hash | name → record of the limit that was set with an end, and holds until then |
 * | `P:{live}:live:ends` | sorted set | names in `temporary`, by their end (ms) |
 * | `P:{live}:live:limits:NAME`, `temporary:NAME`, `ends:NAME` | | the same for keys of the name that have limits of their own |
 * | `P:{live}:live:sent:ID` | sorted set | what a sender has sent within a minute, so that nothing is done twice |
 *
 * Channel `P!live`: each change, as it stands in the log.
 */
export class LiveKeys {
  readonly base: string
  readonly channel: string
  readonly state: string
  readonly log: string
  readonly names: string
  readonly defaults: string
  /** Limits, temporary limits and their ends, of all names. */
  readonly ofNames: LimitKeys

  /** `PolicyError` for a prefix that is not a text, or empty; `user` names the class that was given it. */
  constructor(user: string, prefix = 'spillway') {
    if (typeof prefix !== 'string' || prefix === '') {
      throw new PolicyError(`${user}: prefix ${shown(prefix)}: expected a text that is not empty, like "spillway"`)
    }
    this.base = `${keySegment(prefix)}:{live}:live`
    this.channel = `${keySegment(prefix)}!live`
    this.state = `${this.base}:state`
    this.log = `${this.base}:log`
    this.names = `${this.base}:names`
    this.defaults = `${this.base}:defaults`
    this.ofNames = this.#limits('')
  }

  logOf(name: string): string {
    return `${this.log}:${keySegment(name)}`
  }

  /** Limits, temporary limits and their ends, of the keys of one name. */
  ofKeys(name: string): LimitKeys {
    return this.#limits(`:${keySegment(name)}`)
  }

  #limits(end: string): LimitKeys {
    return [`${this.base}:limits${end}`, `${this.base}:temporary${end}`, `${this.base}:ends${end}`]
  }
}

export type LimitKeys = readonly [limits: string, temporary: string, ends: string]

/** The field of a key in the hashes of its name. */
export function fieldOfKey(key: string): string {
  return clientSegment(key)
}
