// Connections between the processes and the server: each keeps its order, and nothing else is sure.
import { EventEmitter } from 'node:events'
import type { EmbeddedRedis } from './server/embedded-redis.js'
import type { SimulatedProcess, World } from './world.js'

/** The part of a socket that ioredis uses. */
class Socket extends EventEmitter {
  connecting = true
  writable = true
  destroyed = false
  readonly remoteAddress = 'server'
  readonly remotePort = 6379
  #timeout: ReturnType<typeof setTimeout> | undefined

  constructor(readonly link: { send(bytes: string): void; close(): void }) {
    super()
  }

  write(data: string | Buffer): boolean {
    if (!this.destroyed) this.link.send(bytesOf(data))
    return true
  }

  end(): void {
    this.destroy()
  }

  destroy(error?: Error): this {
    if (this.destroyed) return this
    this.link.close()
    this.gone(error)
    return this
  }

  /** The connection has ended. */
  gone(error?: Error): void {
    if (this.destroyed) return
    this.destroyed = true
    this.writable = false
    this.connecting = false
    clearTimeout(this.#timeout)
    process.nextTick(() => {
      if (error !== undefined) this.emit('error', error)
      this.emit('close', error !== undefined)
    })
  }

  setTimeout(ms: number, act?: () => void): this {
    clearTimeout(this.#timeout)
    if (act !== undefined) this.once('timeout', act)
    if (ms > 0 && !this.destroyed) this.#timeout = setTimeout(() => this.emit('timeout'), ms)
    return this
  }

  setNoDelay = () => this
  setKeepAlive = () => this
  resume = () => this
  pause = () => this
  ref = () => this
  unref = () => this
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: bytes
const NOT_ASCII = /[^\x00-\x7f]/

/** Texts are sent as UTF-8; here a character stands for a byte. */
function bytesOf(data: string | Buffer): string {
  if (typeof data !== 'string') return data.toString('latin1')
  return NOT_ASCII.test(data) ? Buffer.from(data).toString('latin1') : data
}

/** How long messages take: up to `usualMs`, and before `until` one of `rarely` up to `rareMs`, which is told. */
export interface Delays {
  readonly usualMs: number
  readonly rareMs: number
  readonly rarely: number
  readonly until: number
  isLate(ms: number, owner: SimulatedProcess): void
}

interface Link {
  readonly owner: SimulatedProcess
  cut(): void
}

/** The server's machine, and the wires to it. */
export class Network {
  readonly #links = new Set<Link>()
  /** The server stands still until then; what arrives waits. */
  hangsUntil = 0
  /** Connections are refused until then. */
  refusesUntil = 0
  /** What a process sends or is sent waits until then. */
  readonly parted = new Map<SimulatedProcess, number>()

  constructor(
    readonly world: World,
    readonly server: EmbeddedRedis,
    readonly delays: Delays,
  ) {}

  /** A class for the option `Connector` of ioredis: connections of that process. */
  connectorOf(owner: SimulatedProcess) {
    const connect = () => this.#connect(owner)
    return class {
      connecting = false
      stream: Socket | undefined
      check = () => true

      async connect(): Promise<Socket> {
        this.connecting = true
        this.stream = connect()
        return this.stream
      }

      disconnect(): void {
        this.connecting = false
        this.stream?.destroy()
      }
    }
  }

  /** All connections break, or those of one process. What is on its way is lost. */
  cut(owner?: SimulatedProcess): void {
    for (const link of [...this.#links]) if (owner === undefined || link.owner === owner) link.cut()
  }

  #delay(owner: SimulatedProcess): number {
    const { random, now } = this.world
    const { usualMs, rareMs, rarely, until, isLate } = this.delays
    const isRare = now < until && random.integer(1, rarely) === 1
    const ms = ((isRare ? rareMs : usualMs) * random.integer(100, 1000)) / 1000
    if (isRare) isLate(ms, owner)
    return ms + Math.max(0, (this.parted.get(owner) ?? 0) - now)
  }

  #connect(owner: SimulatedProcess): Socket {
    const { world, server } = this
    let [isOpen, unread] = [true, '']
    let [toServerAt, toClientAt] = [0, 0]
    const receive = (bytes: string) => {
      toClientAt = Math.max(toClientAt, world.now + this.#delay(owner))
      world.after(
        toClientAt - world.now,
        () => {
          if (isOpen) socket.emit('data', Buffer.from(bytes, 'latin1'))
        },
        owner,
      )
    }
    const peer = { receive }
    const read = () => {
      if (!isOpen) return
      if (this.hangsUntil > world.now) {
        world.after(this.hangsUntil - world.now, read, null)
        return
      }
      unread = eachCommand(unread, words => server.command(peer, words))
      this.#watchBlocked()
    }
    const arrive = (bytes: string) => {
      unread += bytes
      read()
    }
    const end = () => {
      isOpen = false
      this.#links.delete(link)
      server.forgetPeer(peer)
    }
    const link: Link = {
      owner,
      cut: () => {
        end()
        world.after(this.#delay(owner), () => socket.gone(new Error('read ECONNRESET')), owner)
      },
    }
    const socket = new Socket({
      send: bytes => {
        toServerAt = Math.max(toServerAt, world.now + this.#delay(owner))
        world.after(toServerAt - world.now, () => arrive(bytes), null)
      },
      close: end,
    })
    this.#links.add(link)
    world.after(
      2 * this.#delay(owner),
      () => {
        if (!isOpen) return
        if (this.refusesUntil > world.now) {
          end()
          socket.gone(new Error('connect ECONNREFUSED'))
          return
        }
        socket.connecting = false
        socket.emit('connect')
      },
      owner,
    )
    return socket
  }

  /** Those who block are answered when their time is over. */
  #watchBlocked(): void {
    const at = this.server.nextTimeoutAt
    if (at === Number.POSITIVE_INFINITY) return
    const look = () => {
      if (this.hangsUntil > this.world.now) this.world.after(this.hangsUntil - this.world.now, look, null)
      else this.server.serveBlocked()
    }
    this.world.after(at - this.server.nowMs(), look, null)
  }
}

/** Calls `act` for each whole command, and returns the rest. */
function eachCommand(bytes: string, act: (words: string[]) => void): string {
  for (let from = 0; ; ) {
    let at = from
    const number = () => {
      const end = bytes.indexOf('\r\n', at)
      const value = end < 0 ? Number.NaN : Number(bytes.slice(at + 1, end))
      at = end + 2
      return value
    }
    const count = number()
    const words: string[] = []
    while (words.length < count) {
      const length = number()
      if (Number.isNaN(length) || bytes.length < at + length + 2) return bytes.slice(from)
      words.push(bytes.slice(at, at + length))
      at += length + 2
    }
    if (Number.isNaN(count)) return bytes.slice(from)
    act(words)
    from = at
  }
}
