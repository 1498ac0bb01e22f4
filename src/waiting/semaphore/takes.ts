import { getOrMake } from '../../limiter/core/maps.js'
import type { ClientPort } from '../../redis/client.js'
import { runScript } from '../../redis/script.js'
import { semaphoreTake } from '../../redis/scripts.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import { Asked, type Grant, type SemaphoreCommands } from './commands.js'

const MOST_IN_A_CALL = 100
/** A take is carried out within this time, and within the length of its lease, or not at all. */
const LONGEST_IN_FLIGHT_MS = 5000
/** Shorter leases are asked for in the line, whose asks count once however late a copy comes. */
const SHORTEST_LEASE_MS = 1000
/** How often a take is sent again that came too late by the server's clock, which was not known. */
const MOST_REPEATS = 2

/** Counts the lost connections of a client. */
interface Losses {
  count: number
}

const LOSSES = new WeakMap<ClientPort, Losses>()

/** One listener for each client: a client outlives its semaphores. */
function lossesOf(port: ClientPort): Losses {
  return getOrMake(LOSSES, port, () => {
    const losses = { count: 0 }
    port.onLost(() => losses.count++)
    return losses
  })
}

/** Why a take was not granted. */
export interface Refusal {
  /** Nobody waits, and no permit is free. */
  readonly isFull: boolean
  /** The server may have granted it nevertheless, or may still do so, since a copy of it may come. */
  readonly mayCome: boolean
}

/** A take without an answer so far. It cannot be cancelled: whoever no longer wants it gives its grant back. */
interface Take {
  readonly name: string
  readonly leaseMs: number
  granted(grant: Grant): void
  refused(refusal: Refusal): void
  /** Redis has not answered for five seconds; `granted` or `refused` may follow. */
  failed(error: unknown): void
}

/** A release without an answer so far. */
interface Release {
  ended(): void
  /** It must go through the line, or the lease has ended before. `mayBeEnded`: perhaps by a copy of this release. */
  absent(mayBeEnded: boolean): void
  failed(error: unknown): void
}

/**
 * Takes and releases leases without the waiting line, while nobody waits: a take is one short script, a release of one
 * permit is one ZREM. While somebody waits both find nothing, and go through the line. The code avoids promises and
 * objects in each call.
 */
export class Takes {
  readonly #commands: SemaphoreCommands
  readonly #port: ClientPort
  #waiting: Take[] = []
  #inFlight = false
  #onSettled: (() => void) | undefined
  readonly #losses: Losses
  readonly #scripts: TimelyScripts
  /** Of the keys. */
  readonly #slot: number

  constructor(commands: SemaphoreCommands, port: ClientPort) {
    this.#commands = commands
    this.#port = port
    this.#losses = lossesOf(port)
    this.#scripts = TimelyScripts.of(port)
    this.#slot = port.slotOf(commands.keys[0])
  }

  canTake(leaseMs: number): boolean {
    return leaseMs >= SHORTEST_LEASE_MS && this.#commands.clock === undefined && this.#port.state() === 'ready'
  }

  /** For leases of one permit whose take cannot come again. */
  get canRelease(): boolean {
    return this.#port.zrem !== undefined && this.#port.state() === 'ready'
  }

  /** Sends the take at once, or together with all others that come while a call is in flight. */
  take(take: Take): void {
    this.#waiting.push(take)
    if (!this.#inFlight) this.#sendNext()
  }

  release(name: string, release: Release): void {
    const { calls, keys } = this.#commands
    const losses = this.#losses.count
    const pending = calls.begin(error => release.failed(error))
    this.#port.zrem!(keys[1], name).then(
      count => {
        if (!calls.end(pending)) return
        if (count === 1) release.ended()
        else release.absent(losses !== this.#losses.count)
      },
      () => {
        if (calls.end(pending)) release.absent(true)
      },
    )
  }

  /** Resolves when every take has been answered. */
  async settled(): Promise<void> {
    if (this.#inFlight) await new Promise<void>(resolve => (this.#onSettled = resolve))
  }

  #sendNext(): void {
    this.#inFlight = true
    const takes = this.#nextTakes()
    const asked = new Asked()
    const losses = this.#losses.count
    const { calls } = this.#commands
    const pending = calls.begin(error => {
      for (const take of takes) take.failed(error)
    })
    this.#send(takes, asked, 0, reply => {
      calls.end(pending)
      this.#answered(takes, reply, asked, losses !== this.#losses.count)
      this.#inFlight = false
      if (this.#waiting.length > 0) this.#sendNext()
      if (this.#inFlight) return
      this.#onSettled?.()
      this.#onSettled = undefined
    })
  }

  /** Calls back with the answer, or with undefined if there is none. */
  #send(takes: readonly Take[], asked: Asked, repeats: number, done: (reply: unknown) => void): void {
    const { keys, fixedRoom, permits, idle } = this.#commands
    const { leaseMs } = takes[0]
    const server = this.#port.serverOf(this.#slot)
    const until = this.#scripts.lastMoment(server, asked.at + Math.min(LONGEST_IN_FLIGHT_MS, leaseMs))
    const args = [String(leaseMs), String(until), fixedRoom, permits, idle]
    for (const { name } of takes) args.push(name)
    const sentAt = performance.now()
    runScript(this.#port, semaphoreTake, [keys[1], keys[2], keys[0]], args).then(
      reply => {
        const now = serverNow(reply)
        if (now > 0) this.#scripts.learnNow(server, now, sentAt)
        const isLate = Array.isArray(reply) && reply.length === 1
        if (isLate && repeats < MOST_REPEATS && asked.ageMs < leaseMs) this.#send(takes, asked, repeats + 1, done)
        else done(isLate ? undefined : reply)
      },
      () => done(undefined),
    )
  }

  #nextTakes(): readonly Take[] {
    const all = this.#waiting
    this.#waiting = []
    if (all.length === 1) return all
    const other = all.findIndex(({ leaseMs }) => leaseMs !== all[0].leaseMs)
    const count = Math.min(MOST_IN_A_CALL, other < 0 ? all.length : other)
    this.#waiting = all.splice(count)
    return all
  }

  #answered(takes: readonly Take[], reply: unknown, asked: Asked, mayCome: boolean): void {
    const { leaseMs } = takes[0]
    const [first, expiresAt] = granted(reply, leaseMs)
    // A grant may be older than the newest token if it was read later than another one; and a lease may have ended
    // before it is read.
    if (first === undefined || BigInt(first) <= this.#commands.newest || asked.ageMs >= leaseMs) {
      const isFull = reply === -1 && takes.length === 1
      const refusal = { isFull, mayCome: mayCome || reply === undefined || first !== undefined }
      for (const take of takes) take.refused(refusal)
      return
    }
    let token = first
    for (const { name, granted } of takes) {
      granted({ id: name, mayCome, token: this.#commands.saw(BigInt(token++)), expiresAt, asked })
    }
  }
}

/** The server's time in an answer, ms; 0 if it has none. A token is the moment of its grant in µs, or later. */
function serverNow(reply: unknown): number {
  if (Array.isArray(reply)) return reply.length === 1 ? Number(reply[0]) : 0
  return (reply as number) > 0 ? Math.floor((reply as number) / 1000) : 0
}

/** The token of the first lease, and the deadline of all in ms; nothing if they were not granted. */
function granted(reply: unknown, leaseMs: number): readonly [token: number | undefined, expiresAt: number] {
  if (Array.isArray(reply)) return [reply[0] as number, reply[1] as number]
  if (!((reply as number) > 0)) return [undefined, 0]
  return [reply as number, Math.floor((reply as number) / 1000) + leaseMs]
}
