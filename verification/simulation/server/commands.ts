// The commands that the scripts and the clients use, as Redis 7.0 carries them out. Texts are bytes.
import { decimal, Failure, OK, type Reply, Status, WRONG_TYPE } from './reply.js'
import { type ScoreRange, SortedSet } from './sorted-set.js'

type Value = string | string[] | Map<string, string> | SortedSet

interface Entry {
  value: Value
  /** The last ms of its life. */
  expiresAt: number
}

const NEVER = Number.POSITIVE_INFINITY
const SYNTAX = new Failure('ERR syntax error')

/** A command fails by throwing what it answers. */
function integer(text: string): number {
  if (!/^-?\d+$/.test(text)) throw new Failure('ERR value is not an integer or out of range')
  return Number(text)
}

function float(text: string): number {
  const value = /^[+-]?inf(inity)?$/i.test(text) ? (text.startsWith('-') ? -NEVER : NEVER) : Number(text || 'x')
  if (Number.isNaN(value)) throw new Failure('ERR value is not a valid float')
  return value
}

function scoreRange(least: string, most: string): ScoreRange {
  const bound = (text: string) => {
    const open = text.startsWith('(')
    try {
      return [float(open ? text.slice(1) : text), open] as const
    } catch {
      throw new Failure('ERR min or max is not a float')
    }
  }
  const [[low, aboveLow], [high, belowHigh]] = [bound(least), bound(most)]
  return { low, high, aboveLow, belowHigh }
}

/** The part of a list from one index to another, both included; negative ones count from the end. */
function slice<T>(list: readonly T[], from: string, to: string): T[] {
  const at = (index: number) => (index < 0 ? list.length + index : index)
  return list.slice(Math.max(0, at(integer(from))), Math.max(0, at(integer(to)) + 1))
}

/** The keys of one server and what they hold. */
export class Database {
  readonly entries = new Map<string, Entry>()

  /** `nowMs`: the server's clock; `published`: what PUBLISH does. */
  constructor(
    readonly nowMs: () => number,
    readonly published: (channel: string, text: string) => number = () => 0,
  ) {}

  run(words: readonly string[]): Reply {
    const [name, ...args] = words
    const command = COMMANDS[name.toUpperCase()]
    if (command === undefined) return new Failure(`ERR unknown command '${name}'`)
    try {
      return command(this, args)
    } catch (error) {
      if (error instanceof Failure) return error
      throw error
    }
  }

  /** An entry that has not expired. */
  entry(key: string): Entry | undefined {
    const entry = this.entries.get(key)
    if (entry === undefined || entry.expiresAt >= Math.floor(this.nowMs())) return entry
    this.entries.delete(key)
    return undefined
  }

  delete(key: string): boolean {
    return this.entry(key) !== undefined && this.entries.delete(key)
  }

  text = (key: string): string | undefined => this.#of(key, value => typeof value === 'string') as string | undefined
  list = (key: string): string[] | undefined => this.#of(key, Array.isArray) as string[] | undefined
  hash = (key: string): Map<string, string> | undefined =>
    this.#of(key, value => value instanceof Map) as Map<string, string> | undefined
  sorted = (key: string): SortedSet | undefined =>
    this.#of(key, value => value instanceof SortedSet) as SortedSet | undefined

  /** The value of a key, which is made if there is none. */
  made<T extends Value>(key: string, found: T | undefined, make: () => T): T {
    if (found !== undefined) return found
    const value = make()
    this.entries.set(key, { value, expiresAt: NEVER })
    return value
  }

  /** An empty value leaves no key. */
  tidy(key: string, size: number): void {
    if (size === 0) this.entries.delete(key)
  }

  set(key: string, value: string, expiresAt = NEVER): void {
    this.entries.set(key, { value, expiresAt })
  }

  expireAt(key: string, at: number): number {
    const entry = this.entry(key)
    if (entry === undefined) return 0
    if (at <= Math.floor(this.nowMs())) this.entries.delete(key)
    else entry.expiresAt = at
    return 1
  }

  #of(key: string, is: (value: Value) => boolean): Value | undefined {
    const entry = this.entry(key)
    if (entry === undefined) return undefined
    if (!is(entry.value)) throw WRONG_TYPE
    return entry.value
  }
}

type Command = (db: Database, args: string[]) => Reply

const del: Command = (db, keys) => keys.filter(key => db.delete(key)).length

const push = (add: (list: string[], value: string) => unknown): Command => {
  return (db, [key, ...values]) => {
    const list = db.made(key, db.list(key), () => [])
    for (const value of values) add(list, value)
    return list.length
  }
}

const pop = (take: (list: string[]) => string | undefined): Command => {
  return (db, [key, count]) => {
    const list = db.list(key)
    if (list === undefined) return null
    const taken: string[] = []
    const most = Math.min(list.length, count === undefined ? 1 : integer(count))
    while (taken.length < most) taken.push(take(list) as string)
    db.tidy(key, list.length)
    return count === undefined ? taken[0] : taken
  }
}

/** Members, with their scores behind them if they are asked for. */
function told(set: SortedSet, members: readonly string[], scores: boolean): Reply {
  return scores ? members.flatMap(member => [member, decimal(set.score(member))]) : members
}

/** LIMIT offset count */
function limited(members: string[], options: readonly string[]): string[] {
  const at = options.findIndex(option => option.toUpperCase() === 'LIMIT')
  if (at < 0) return members
  const [offset, count] = [integer(options[at + 1]), integer(options[at + 2])]
  return members.slice(offset, count < 0 ? undefined : offset + count)
}

const has = (options: readonly string[], word: string) => options.some(option => option.toUpperCase() === word)

const byScore = (reversed: boolean): Command => {
  return (db, [key, one, two, ...options]) => {
    const range = reversed ? scoreRange(two, one) : scoreRange(one, two)
    const set = db.sorted(key)
    if (set === undefined) return []
    const members = set.between(range)
    return told(set, limited(reversed ? members.reverse() : members, options), has(options, 'WITHSCORES'))
  }
}

const removing = (choose: (set: SortedSet, one: string, two: string) => string[]): Command => {
  return (db, [key, one, two]) => {
    scoreRange(one, two)
    const set = db.sorted(key)
    if (set === undefined) return 0
    const members = choose(set, one, two)
    for (const member of members) set.delete(member)
    db.tidy(key, set.size)
    return members.length
  }
}

const COMMANDS: Readonly<Record<string, Command>> = {
  PING: (_, [text]) => text ?? new Status('PONG'),
  TIME: db => {
    const now = db.nowMs()
    return [String(Math.floor(now / 1000)), String(Math.floor((now % 1000) * 1000))]
  },
  PUBLISH: (db, [channel, text]) => db.published(channel, text),
  FLUSHALL: db => {
    db.entries.clear()
    return OK
  },
  DEL: del,
  UNLINK: del,
  EXISTS: (db, keys) => keys.filter(key => db.entry(key) !== undefined).length,
  TYPE: (db, [key]) => {
    const value = db.entry(key)?.value
    if (value === undefined) return new Status('none')
    if (typeof value === 'string') return new Status('string')
    return new Status(Array.isArray(value) ? 'list' : value instanceof Map ? 'hash' : 'zset')
  },
  RENAME: (db, [from, to]) => {
    const entry = db.entry(from)
    if (entry === undefined) return new Failure('ERR no such key')
    db.entries.delete(from)
    db.entries.set(to, entry)
    return OK
  },
  PTTL: (db, [key]) => {
    const entry = db.entry(key)
    return entry === undefined ? -2 : entry.expiresAt === NEVER ? -1 : entry.expiresAt - Math.floor(db.nowMs())
  },
  PEXPIRETIME: (db, [key]) => {
    const entry = db.entry(key)
    return entry === undefined ? -2 : entry.expiresAt === NEVER ? -1 : entry.expiresAt
  },
  PEXPIRE: (db, [key, ms]) => db.expireAt(key, Math.floor(db.nowMs()) + integer(ms)),
  PEXPIREAT: (db, [key, at]) => db.expireAt(key, integer(at)),
  PERSIST: (db, [key]) => {
    const entry = db.entry(key)
    if (entry === undefined || entry.expiresAt === NEVER) return 0
    entry.expiresAt = NEVER
    return 1
  },

  GET: (db, [key]) => db.text(key) ?? null,
  MGET: (db, keys) => {
    return keys.map(key => {
      const value = db.entry(key)?.value
      return typeof value === 'string' ? value : null
    })
  },
  SET: (db, [key, value, option, at]) => {
    const word = option?.toUpperCase()
    if (word === undefined) db.set(key, value)
    else if (word === 'KEEPTTL') db.set(key, value, db.entry(key)?.expiresAt)
    else if (word === 'PX') db.set(key, value, Math.floor(db.nowMs()) + integer(at))
    else if (word === 'PXAT') {
      db.set(key, value)
      db.expireAt(key, integer(at))
    } else return SYNTAX
    return OK
  },
  SETRANGE: (db, [key, offset, part]) => {
    const [before, at] = [db.text(key) ?? '', integer(offset)]
    if (part === '') return before.length
    const text = before.slice(0, at).padEnd(at, '\0') + part + before.slice(at + part.length)
    const entry = db.entry(key)
    if (entry === undefined) db.set(key, text)
    else entry.value = text
    return text.length
  },
  INCRBY: (db, [key, by]) => {
    const more = integer(by)
    const value = integer(db.text(key) ?? '0') + more
    db.set(key, String(value), db.entry(key)?.expiresAt)
    return value
  },

  HSET: (db, [key, ...pairs]) => {
    if (pairs.length % 2 === 1 || pairs.length === 0)
      return new Failure("ERR wrong number of arguments for 'hset' command")
    const hash = db.made(key, db.hash(key), () => new Map<string, string>())
    const before = hash.size
    for (let i = 0; i < pairs.length; i += 2) hash.set(pairs[i], pairs[i + 1])
    return hash.size - before
  },
  HGET: (db, [key, field]) => db.hash(key)?.get(field) ?? null,
  HMGET: (db, [key, ...fields]) => {
    const hash = db.hash(key)
    return fields.map(field => hash?.get(field) ?? null)
  },
  HGETALL: (db, [key]) => [...(db.hash(key) ?? [])].flat(),
  HVALS: (db, [key]) => [...(db.hash(key)?.values() ?? [])],
  HLEN: (db, [key]) => db.hash(key)?.size ?? 0,
  HEXISTS: (db, [key, field]) => (db.hash(key)?.has(field) ? 1 : 0),
  HDEL: (db, [key, ...fields]) => {
    const hash = db.hash(key)
    if (hash === undefined) return 0
    const count = fields.filter(field => hash.delete(field)).length
    db.tidy(key, hash.size)
    return count
  },
  HINCRBY: (db, [key, field, by]) => {
    const hash = db.hash(key)
    const before = hash?.get(field) ?? '0'
    if (!/^-?\d+$/.test(before)) return new Failure('ERR hash value is not an integer')
    const value = Number(before) + integer(by)
    db.made(key, hash, () => new Map<string, string>()).set(field, String(value))
    return value
  },

  LPUSH: push((list, value) => list.unshift(value)),
  RPUSH: push((list, value) => list.push(value)),
  LPOP: pop(list => list.shift()),
  RPOP: pop(list => list.pop()),
  LLEN: (db, [key]) => db.list(key)?.length ?? 0,
  LRANGE: (db, [key, from, to]) => slice(db.list(key) ?? [], from, to),
  LINDEX: (db, [key, index]) => db.list(key)?.at(integer(index)) ?? null,
  LSET: (db, [key, index, value]) => {
    const list = db.list(key)
    if (list === undefined) return new Failure('ERR no such key')
    const at = integer(index)
    if (list.at(at) === undefined) return new Failure('ERR index out of range')
    list[at < 0 ? list.length + at : at] = value
    return OK
  },
  LTRIM: (db, [key, from, to]) => {
    const list = db.list(key)
    if (list === undefined) return OK
    const left = slice(list, from, to)
    list.length = 0
    list.push(...left)
    db.tidy(key, left.length)
    return OK
  },

  ZADD: (db, [key, ...words]) => {
    const flags = new Set<string>()
    while (/^(NX|XX|CH|GT|LT)$/i.test(words[0] ?? '')) flags.add((words.shift() as string).toUpperCase())
    if (words.length % 2 === 1 || words.length === 0) return SYNTAX
    const scores = words.filter((_, i) => i % 2 === 0).map(float)
    let set = db.sorted(key)
    let [added, changed] = [0, 0]
    for (const [i, score] of scores.entries()) {
      const member = words[2 * i + 1]
      const before = set?.scores.get(member)
      if (before === undefined ? flags.has('XX') : flags.has('NX')) continue
      if (before !== undefined && ((flags.has('GT') && score <= before) || (flags.has('LT') && score >= before)))
        continue
      set = db.made(key, set, () => new SortedSet())
      set.set(member, score)
      if (before === undefined) added++
      else if (before !== score) changed++
    }
    return flags.has('CH') ? added + changed : added
  },
  ZREM: (db, [key, ...members]) => {
    const set = db.sorted(key)
    if (set === undefined) return 0
    const count = members.filter(member => set.delete(member)).length
    db.tidy(key, set.size)
    return count
  },
  ZCARD: (db, [key]) => db.sorted(key)?.size ?? 0,
  ZCOUNT: (db, [key, one, two]) => {
    const range = scoreRange(one, two)
    return db.sorted(key)?.between(range).length ?? 0
  },
  ZSCORE: (db, [key, member]) => {
    const score = db.sorted(key)?.scores.get(member)
    return score === undefined ? null : decimal(score)
  },
  ZMSCORE: (db, [key, ...members]) => {
    const set = db.sorted(key)
    return members.map(member => {
      const score = set?.scores.get(member)
      return score === undefined ? null : decimal(score)
    })
  },
  ZRANK: (db, [key, member]) => {
    const rank = db.sorted(key)?.members.indexOf(member) ?? -1
    return rank < 0 ? null : rank
  },
  ZRANGE: (db, [key, from, to, ...options]) => {
    if (has(options, 'BYSCORE')) {
      // With REV the first bound is the upper one, as in ZREVRANGEBYSCORE.
      return COMMANDS[has(options, 'REV') ? 'ZREVRANGEBYSCORE' : 'ZRANGEBYSCORE'](db, [key, from, to, ...options])
    }
    if (!options.every(option => /^(REV|WITHSCORES)$/i.test(option))) return SYNTAX
    const set = db.sorted(key)
    if (set === undefined) return []
    const members = has(options, 'REV') ? set.members.toReversed() : set.members
    return told(set, slice(members, from, to), has(options, 'WITHSCORES'))
  },
  ZRANGEBYSCORE: byScore(false),
  ZREVRANGEBYSCORE: byScore(true),
  ZREMRANGEBYSCORE: removing((set, one, two) => set.between(scoreRange(one, two))),
  ZREMRANGEBYRANK: removing((set, one, two) => slice(set.members, one, two)),
  ZPOPMIN: (db, [key]) => {
    const set = db.sorted(key)
    if (set === undefined) return []
    const [member] = set.members
    const score = decimal(set.score(member))
    set.delete(member)
    db.tidy(key, set.size)
    return [member, score]
  },
}
