import { clientSegment, keySegment } from '../../limiter/core/key-segment.js'
import type { PolicyInput } from '../../limiter/core/limit.js'
import type { Listed } from '../../limiter/core/listed.js'
import { checkText } from '../../limiter/core/options.js'
import { randomText } from '../../limiter/core/short-key.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { Commands } from '../../redis/commands.js'
import { notConnected } from '../../redis/replies.js'
import {
  liveHistory,
  liveKeys,
  liveList,
  liveLoad,
  liveNames,
  liveRegister,
  liveSet,
  liveSince,
} from '../../redis/scripts.js'
import {
  type Change,
  type ChangeText,
  givenPolicy,
  LiveLimit,
  livePolicy,
  readChange,
  storedPolicy,
} from './live-limit.js'

/**
 * The keys of LivePolicies in Redis. One hash tag puts all of them into one slot of a cluster, so that one script
 * changes a limit, numbers the change and writes the log. A *record* and an entry of a log are the same text: see
 * `readChange`.
 *
 * | key | kind | holds |
 * | --- | --- | --- |
 * | `P:{live}:live:state` | hash | `epoch`: a random text, new when Redis has lost its data; `seq`: the number of the
 * newest change |
 * | `P:{live}:live:log` | list | the newest 1000 changes, newest first |
 * | `P:{live}:live:log:NAME` | list | the newest 100 changes of a name and of its keys, newest first |
 * | `P:{live}:live:names` | sorted set | names, by the moment (ms) at which a process registered them last |
 * | `P:{live}:live:defaults` | hash | name → the policy of its default, as `storedPolicy` writes it |
 * | `P:{live}:live:limits` | hash | name → record of the limit that was set without an end |
 * | `P:{live}:live:temporary` | hash | name → record of the limit that was set with an end, and holds until then |
 * | `P:{live}:live:ends` | sorted set | names in `temporary`, by their end (ms) |
 * | `P:{live}:live:limits:NAME`, `temporary:NAME`, `ends:NAME` | | the same for keys of the name that have limits of
 * their own |
 * | `P:{live}:live:sent:ID` | sorted set | what a sender has sent within a minute, so that nothing is done twice |
 *
 * Channel `P!live`: each change, as it stands in the log.
 */
class LiveKeys {
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
    checkText(prefix, `${user}: prefix`, 'spillway')
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

type LimitKeys = readonly [limits: string, temporary: string, ends: string]

/** The field of a key in the hashes of its name. */
export function fieldOfKey(key: string): string {
  return clientSegment(key)
}

/** The position of an answer from Redis. */
export interface Position {
  readonly nowMs: number
  /** '' before the first change. */
  readonly epoch: string
  /** Number of the newest change. */
  readonly seq: number
}

/** A name with its limits in Redis. */
export interface NamedLimit {
  /** As it stands in Redis. */
  readonly text: string
  readonly name: string
  readonly default: PolicyInput
  readonly limit: LiveLimit
}

/** When a change ends: at a moment or after so long; both undefined: never. */
export interface ChangeEnd {
  readonly atMs?: number
  readonly afterMs?: number
}

/** So many names or keys are asked for in one call. */
const MOST_AT_ONCE = 500

/**
 * Reads and writes the live limits of one prefix in Redis, without a cache. Every method rejects with `StoreError` when
 * Redis fails.
 */
export class LiveRecords {
  readonly keys: LiveKeys
  readonly port: ClientPort
  #id: string | undefined
  readonly #commands: Commands

  /** Throws `PolicyError`, naming `user`, for an invalid client or prefix. */
  constructor(client: RedisClient, user: string, prefix?: string) {
    this.keys = new LiveKeys(user, prefix)
    this.port = portOf(client, user)
    this.#commands = new Commands(client, user, this.keys.base)
  }

  /** Identifies this process in its changes. Drawn when it is first needed: not every runtime draws while it loads. */
  get id(): string {
    this.#id ??= randomText(12)
    return this.#id
  }

  /**
   * The changes since a position, oldest first; `changes` is undefined if there are too many, or the data was replaced.
   */
  async since({ epoch, seq }: Position): Promise<Position & { readonly changes: readonly Change[] | undefined }> {
    const { state, log } = this.keys
    const reply = await this.#read(liveSince, [state, log], [epoch, String(seq)])
    const changes = reply.slice(4).map(readChange)
    // An unreadable line makes the list incomplete.
    const complete = Number(reply[3]) === 1 && changes.every(change => change !== undefined)
    return { ...positionOf(reply), changes: complete ? (changes as Change[]) : undefined }
  }

  /**
   * The limits of some names, and whether any of their keys has its own limit. The position is that of the oldest
   * answer.
   */
  async load(
    names: readonly string[],
  ): Promise<Position & { readonly limits: ReadonlyArray<{ readonly limit: LiveLimit; readonly hasKeys: boolean }> }> {
    const [limits, temporary] = this.keys.ofNames
    let position: Position | undefined
    const loaded = []
    for (const some of portions(names)) {
      const ofKeys = some.flatMap(name => this.keys.ofKeys(name).slice(0, 2))
      const reply = await this.#read(liveLoad, [this.keys.state, limits, temporary, ...ofKeys], some)
      const answered = positionOf(reply)
      position ??= answered
      for (let i = 0; i < some.length; i++) {
        const [standing, passing, count] = reply.slice(3 + 3 * i)
        loaded.push({ limit: limitOf(answered, standing, passing), hasKeys: Number(count) > 0 })
      }
    }
    return { ...(position ?? { nowMs: Date.now(), epoch: '', seq: 0 }), limits: loaded }
  }

  /** The own limits of some keys of a name, by their fields; at most 500. */
  async loadKeys(
    name: string,
    fields: readonly string[],
  ): Promise<Position & { readonly limits: readonly LiveLimit[] }> {
    return this.#ofKeys([name], fields)
  }

  /** The own limit of one key under each of some names. */
  async ownLimits(names: readonly string[], key: string): Promise<LiveLimit[]> {
    const loaded = portions(names).map(some => this.#ofKeys(some, Array(some.length).fill(fieldOfKey(key))))
    return (await Promise.all(loaded)).flatMap(({ limits }) => limits)
  }

  /**
   * Limits that were set and are in force: those of these names, unless only keys are meant, then those of their keys,
   * each the newest first.
   */
  async list(names: readonly string[], limit: number, onlyKeys = false): Promise<Listed<Change>> {
    const { state, ofNames } = this.keys
    const inForce = new Map<string, Change>()
    let keys = 0
    for (const some of portions(names)) {
      const ofKeys = some.flatMap(name => this.keys.ofKeys(name))
      const args = [String(2 * limit), ...some]
      const [now, count, ...texts] = await this.#read(liveList, [state, ofNames[0], ofNames[1], ...ofKeys], args)
      keys += Number(count)
      for (const change of texts.map(readChange)) {
        if (change === undefined || (change.untilMs ?? Number.POSITIVE_INFINITY) <= Number(now)) continue
        if (onlyKeys && change.key === undefined) continue
        const id = JSON.stringify([change.name, change.key])
        // A temporary limit stands before the one that lasts.
        if (inForce.get(id)?.untilMs === undefined) inForce.set(id, change)
      }
    }
    const all = [...inForce.values()].sort(
      (a, b) => Number(a.key !== undefined) - Number(b.key !== undefined) || b.seq - a.seq,
    )
    const ofNamesCount = all.filter(({ key }) => key === undefined).length
    const items = all.slice(0, limit)
    return { items, more: Math.max(all.length, ofNamesCount + keys) - items.length }
  }

  async #ofKeys(names: readonly string[], fields: readonly string[]) {
    const keys = names.flatMap(name => this.keys.ofKeys(name))
    const reply = await this.#read(liveKeys, [this.keys.state, ...keys], fields)
    const position = positionOf(reply)
    return { ...position, limits: fields.map((_, i) => limitOf(position, reply[3 + 2 * i], reply[4 + 2 * i])) }
  }

  /** Records names and defaults for outside viewers. Returns the server's time. */
  async register(defaults: ReadonlyMap<string, PolicyInput>): Promise<number> {
    const { state, names, defaults: key } = this.keys
    const words = [...defaults].map(([name, given]) => [name, storedPolicy(given)])
    let nowMs = 0
    for (const some of portions(words)) {
      const answer = await this.#commands.run(liveRegister, [state, names, key], [newEpoch(), ...some.flat()])
      nowMs = Number(answer)
    }
    return nowMs
  }

  /**
   * All names that processes have registered within 30 days, with their limits; without those whose default this
   * version does not understand. Of `known`, by name, those that stand in Redis as they did are returned as they are.
   */
  async names(
    known: ReadonlyMap<string, NamedLimit> = new Map(),
  ): Promise<Position & { readonly names: readonly NamedLimit[] }> {
    const { state, names, defaults, ofNames } = this.keys
    const reply = await this.#read(liveNames, [state, names, defaults, ofNames[0], ofNames[1]], [])
    const position = positionOf(reply)
    const found: NamedLimit[] = []
    for (let i = 3; i < reply.length; i += 4) {
      const [name, ...texts] = reply.slice(i, i + 4).map(String)
      const text = texts.join('\n')
      const before = known.get(name)
      if (before?.text === text) {
        found.push(before)
        continue
      }
      const [given, standing, passing] = texts
      const byDefault = readPolicy(name, given)
      if (byDefault !== undefined)
        found.push({ name, text, default: byDefault, limit: limitOf(position, standing, passing) })
    }
    return { ...position, names: found }
  }

  /** Sets (`policy`) or clears a limit, for all keys or for one. The policy is not checked here: see `livePolicy`. */
  async change(
    text: { readonly name: string; readonly key?: string; readonly policy?: PolicyInput; readonly by?: string },
    end: ChangeEnd = {},
  ): Promise<Change & { readonly nowMs: number }> {
    const refusal = notConnected(this.port.state())
    if (refusal) throw refusal
    const { state, log, channel } = this.keys
    const { name, key, policy, by } = text
    const ofLimit = key === undefined ? this.keys.ofNames : this.keys.ofKeys(name)
    const change: ChangeText = {
      name,
      key,
      policy: policy === undefined ? undefined : storedPolicy(policy),
      by,
      from: this.id,
    }
    const reply = await this.#commands.once(
      liveSet,
      [state, log, this.keys.logOf(name), ...ofLimit],
      [
        newEpoch(),
        channel,
        key === undefined ? name : fieldOfKey(key),
        JSON.stringify(change),
        policy === undefined ? 'clear' : 'set',
        String(end.atMs ?? -1),
        String(end.afterMs ?? -1),
      ],
    )
    const [nowMs, line] = reply as [number, string]
    return { ...(readChange(line) as Change), nowMs }
  }

  /** The newest changes, newest first: at most 1000 of all names, 100 of one. */
  async history(name: string | undefined, count: number): Promise<Change[]> {
    const log = name === undefined ? this.keys.log : this.keys.logOf(name)
    const lines = await this.#read(liveHistory, [log], [String(count)])
    return lines.map(readChange).filter(change => change !== undefined)
  }

  async #read(script: Parameters<Commands['run']>[0], keys: readonly string[], args: readonly string[]) {
    return (await this.#commands.run(script, keys, args)) as unknown[]
  }
}

/** A stored policy; undefined for one that this version does not understand. */
function readPolicy(name: string, stored: string): PolicyInput | undefined {
  try {
    return livePolicy(name, givenPolicy(stored)).given
  } catch {
    return undefined
  }
}

/** Used if Redis has none. */
function newEpoch(): string {
  return randomText(12)
}

function positionOf([nowMs, epoch, seq]: readonly unknown[]): Position {
  return { nowMs: Number(nowMs), epoch: String(epoch), seq: Number(seq) }
}

function limitOf({ seq }: Position, standing: unknown, temporary: unknown): LiveLimit {
  return new LiveLimit(seq, readChange(standing), readChange(temporary))
}

function portions<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / MOST_AT_ONCE) }, (_, i) =>
    all.slice(i * MOST_AT_ONCE, (i + 1) * MOST_AT_ONCE),
  )
}
