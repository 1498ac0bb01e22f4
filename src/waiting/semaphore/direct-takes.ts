import { Deadline, type Pending } from '../../limiter/core/clock.js'
import { getOrMake } from '../../limiter/core/maps.js'
import type { ClientPort } from '../../redis/client.js'
import { runScript } from '../../redis/script.js'
import { semaphoreTake } from '../../redis/scripts.js'
import { Asked, type Grant, type SemaphoreCommands } from './commands.js'

/** After this many grants in a row without another waiter, permits are taken directly. */
const GRANTS_IN_A_ROW = 8
/** A longer lease needs a fact, because it could outlive the server's record of its holder. */
export const LONGEST_WITHOUT_FACT_MS = 60_000
const MOST_IN_A_CALL = 100
const DEADLINE = new Deadline(5000)

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

/** A take without an answer so far. It cannot be cancelled: whoever no longer wants it gives its grant back. */
interface Take {
  readonly id: string
  readonly leaseMs: number
  granted(grant: Grant): void
  /** The take must go through the line. `unknown`: the server may have granted it nevertheless. */
  refused(unknown: boolean): void
  /** Redis has not answered for five seconds; `granted` or `refused` may follow. */
  failed(error: unknown): void
}

/** A release without an answer so far. */
interface Release {
  ended(): void
  /**
   * The lease has ended before, or the release must go through the line. `unknown`: the server may have ended the lease
   * nevertheless.
   */
  absent(unknown: boolean): void
  failed(error: unknown): void
}

/**
 * Takes and releases leases of one permit without the waiting line, while nobody waits: a take is one short script, a
 * release is one ZREM. A take that finds no permit, or finds waiters, goes through the line instead, and so do all
 * later takes until the line has granted at once for a while. The code avoids promises and objects in each call.
 */
export class DirectTakes {
  /**
   * The name of this object in the script. Together with its newest token it lets the script recognize a repeated call.
   */
  readonly sender: string
  #newest = '0'
  #isOpen = false
  #grants = 0
  readonly #keys: readonly string[]
  #takes: Take[] = []
  #inFlight = false
  #onSettled: (() => void) | undefined
  readonly #losses: Losses

  /** `refused` is called once for each call after which takes must go through the line. */
  constructor(
    readonly commands: SemaphoreCommands,
    readonly port: ClientPort,
    address: string,
    readonly refused: () => void,
  ) {
    this.sender = `@${address}`
    this.#keys = commands.directKeys
    this.#losses = lossesOf(port)
  }

  /** True if the next ask of the line should open the semaphore for direct takes. */
  get shouldOpen(): boolean {
    return (
      this.#grants >= GRANTS_IN_A_ROW && !this.#isOpen && this.port.zrem !== undefined && this.commands.isTimedByServer
    )
  }

  get isOpen(): boolean {
    return this.#isOpen && this.port.state() === 'ready'
  }

  canTake(permits: number, leaseMs: number): boolean {
    return permits === 1 && leaseMs <= LONGEST_WITHOUT_FACT_MS && this.isOpen
  }

  /** The line has granted permits: counts the grants. */
  granted(): void {
    this.#grants++
  }

  /** The line has opened the semaphore for direct takes; the next call sends this token. */
  open(newest: number): void {
    this.#newest = String(newest)
    this.#isOpen = true
  }

  /** There are waiters, or no permits are free: takes go through the line from now on. */
  shut(): void {
    this.#isOpen = false
    this.#grants = Math.min(0, this.#grants)
  }

  /** Sends the take at once, or together with all others that come while a call is in flight. */
  take(take: Take): void {
    this.#takes.push(take)
    if (!this.#inFlight) this.#send()
  }

  release(name: string, release: Release): void {
    const losses = this.#losses.count
    const pending = started(error => release.failed(error))
    this.port.zrem!(this.#keys[0], name).then(
      count => {
        if (!DEADLINE.answered(pending)) return
        if (count === 1) {
          release.ended()
          return
        }
        this.shut()
        release.absent(losses !== this.#losses.count)
      },
      () => {
        if (!DEADLINE.failed(pending)) return
        this.shut()
        release.absent(true)
      },
    )
  }

  /** Resolves when every take has been answered; undefined if all are answered. */
  settled(): Promise<void> | undefined {
    return this.#inFlight ? new Promise(resolve => (this.#onSettled = resolve)) : undefined
  }

  #send(): void {
    this.#inFlight = true
    const takes = this.#nextTakes()
    const args = [this.sender, this.#newest, String(takes[0].leaseMs), this.commands.fixed]
    for (const { id } of takes) args.push(`~${id}`)
    const asked = new Asked()
    const pending = started(error => {
      this.shut()
      for (const take of takes) take.failed(error)
    })
    const answered = (reply: unknown) => {
      DEADLINE.answered(pending)
      if (isGrant(reply)) this.#grant(takes, reply, asked)
      else this.#refuse(takes)
      this.#next()
    }
    const failed = () => {
      DEADLINE.failed(pending)
      this.#refuse(takes)
      this.#next()
    }
    runScript(this.port, semaphoreTake, this.#keys, args).then(answered, failed)
  }

  #nextTakes(): readonly Take[] {
    const all = this.#takes
    this.#takes = []
    if (all.length === 1) return all
    const other = all.findIndex(({ leaseMs }) => leaseMs !== all[0].leaseMs)
    const count = Math.min(MOST_IN_A_CALL, other < 0 ? all.length : other)
    this.#takes = all.splice(count)
    return all
  }

  #grant(takes: readonly Take[], reply: Reply, asked: Asked): void {
    const [first, expiresAt] = typeof reply === 'number' ? [reply, Math.floor(reply / 1000) + takes[0].leaseMs] : reply
    this.#newest = String(first + takes.length - 1)
    let token = first
    for (const take of takes) {
      take.granted({ id: take.id, name: `~${take.id}`, token: this.commands.saw(BigInt(token++)), expiresAt, asked })
    }
  }

  #refuse(takes: readonly Take[]): void {
    this.shut()
    this.refused()
    // A refusal does not exclude a grant: an earlier copy of the call may have been granted before others waited.
    for (const take of takes) take.refused(true)
    for (const take of this.#takes.splice(0)) take.refused(false)
  }

  #next(): void {
    this.#inFlight = false
    if (this.#takes.length > 0) this.#send()
    if (this.#inFlight) return
    this.#onSettled?.()
    this.#onSettled = undefined
  }
}

/**
 * The token of the first lease and the deadline of all in ms; or one token, which is the moment in µs from which the
 * deadline counts.
 */
type Reply = number | readonly [token: number, expiresAt: number]

function isGrant(reply: unknown): reply is Reply {
  return Array.isArray(reply) || (reply as number) > 0
}

function started(expire: (error: unknown) => void): Pending {
  const pending: Pending = { endsAt: 0, settled: false, expire }
  DEADLINE.start(pending)
  return pending
}
