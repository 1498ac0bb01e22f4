import { createHash } from 'node:crypto'
import { Database } from './commands.js'
import type { Lua } from './lua.js'
import { encoded, Failure, OK, type Reply, Status } from './reply.js'

/** A client as the server sees it. */
export interface Peer {
  /** Bytes for the client. */
  receive(bytes: string): void
}

interface Blocked {
  readonly peer: Peer
  readonly key: string
  readonly until: number
}

/** A script that has run, for those who want to run it again elsewhere; a plain command is told as a script, too. */
export interface Run {
  readonly source: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly nowMs: number
  /** How many clients heard each message that it has published, in order. */
  readonly heard: readonly number[]
  readonly reply: Reply
}

/** A Redis in this thread: one database, the scripts in real Lua, channels, and clients that block on a sorted set. */
export class EmbeddedRedis {
  readonly db: Database
  readonly #sources = new Map<string, string>()
  readonly #channels = new Map<string, Set<Peer>>()
  #blocked: Blocked[] = []
  onRun: ((run: Run) => void) | undefined

  constructor(
    readonly lua: Lua,
    readonly nowMs: () => number,
  ) {
    this.db = new Database(nowMs, (channel, text) => {
      const peers = [...(this.#channels.get(channel) ?? [])]
      for (const peer of peers) peer.receive(encoded(['message', channel, text]))
      return peers.length
    })
  }

  /** A command of a client. No answer yet: it blocks, or has been answered. */
  command(peer: Peer, words: readonly string[]): void {
    const [name, ...args] = words
    const channels = name.toUpperCase().endsWith('SUBSCRIBE') ? args : []
    for (const channel of channels) {
      const peers = this.#channels.get(channel) ?? new Set()
      this.#channels.set(channel, peers)
      if (name.toUpperCase() === 'SUBSCRIBE') peers.add(peer)
      else peers.delete(peer)
      const count = [...this.#channels.values()].filter(all => all.has(peer)).length
      peer.receive(encoded([name.toLowerCase(), channel, count]))
    }
    if (channels.length > 0) return
    if (name.toUpperCase() === 'BZPOPMIN') {
      const seconds = Number(args[1])
      this.#blocked.push({
        peer,
        key: args[0],
        until: seconds === 0 ? Number.POSITIVE_INFINITY : this.nowMs() + seconds * 1000,
      })
    } else peer.receive(encoded(this.execute(words)))
    this.serveBlocked()
  }

  /** The connection of a client has ended. */
  forgetPeer(peer: Peer): void {
    for (const peers of this.#channels.values()) peers.delete(peer)
    this.#blocked = this.#blocked.filter(blocked => blocked.peer !== peer)
  }

  forgetScripts(): void {
    this.#sources.clear()
  }

  /** Any command that neither blocks nor subscribes. */
  execute(words: readonly string[]): Reply {
    const [name, ...args] = words
    switch (name.toUpperCase()) {
      case 'EVALSHA':
      case 'EVAL': {
        const isText = name.toUpperCase() === 'EVAL'
        const sha1 = isText ? createHash('sha1').update(args[0], 'latin1').digest('hex') : args[0]
        if (isText) this.#sources.set(sha1, args[0])
        const source = this.#sources.get(sha1)
        if (source === undefined) return new Failure('NOSCRIPT No matching script. Please use EVAL.')
        const count = Number(args[1])
        return this.#script(sha1, source, args.slice(2, 2 + count), args.slice(2 + count))
      }
      case 'SCRIPT':
        if (args[0].toUpperCase() === 'FLUSH') this.forgetScripts()
        return OK
      case 'INFO':
        return 'redis_version:7.0.15\r\nloading:0\r\n'
      case 'CLIENT':
        return OK
      case 'QUIT':
        return new Status('OK')
      default:
        return this.#plain(words)
    }
  }

  #plain(words: readonly string[]): Reply {
    const reply = this.db.run(words)
    const source = 'return redis.call(unpack(ARGV))'
    this.onRun?.({
      source,
      keys: words.slice(1, 2),
      args: words,
      nowMs: this.nowMs(),
      heard: heardBy(words, reply),
      reply,
    })
    return reply
  }

  /** Answers those who block, as far as there is something or their time is over; call it as time passes. */
  serveBlocked(): void {
    if (this.#blocked.length === 0) return
    const now = this.nowMs()
    this.#blocked = this.#blocked.filter(({ peer, key, until }) => {
      const popped = this.#plain(['ZPOPMIN', key])
      if (Array.isArray(popped) && popped.length === 0 && now < until) return true
      peer.receive(
        Array.isArray(popped) && popped.length > 0
          ? encoded([key, ...popped])
          : popped instanceof Failure
            ? encoded(popped)
            : '*-1\r\n',
      )
      return false
    })
  }

  /** When the first of those who block must be answered. */
  get nextTimeoutAt(): number {
    return Math.min(...this.#blocked.map(({ until }) => until))
  }

  #script(name: string, source: string, keys: readonly string[], args: readonly string[]): Reply {
    const heard: number[] = []
    const reply = this.lua.run(name, source, keys, args, words => {
      const given = this.db.run(words)
      if (this.onRun !== undefined) heard.push(...heardBy(words, given))
      return given
    })
    this.onRun?.({ source, keys, args, nowMs: this.nowMs(), heard, reply })
    return reply
  }
}

function heardBy([name]: readonly string[], reply: Reply): number[] {
  return name.toUpperCase() === 'PUBLISH' ? [Number(reply)] : []
}
