import { GRACE_MS } from '../limiter/core/clock.js'
import { StoreError, shown } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import type { ClientPort, ScriptArgument } from './client.js'
import { notConnected } from './replies.js'
import { type Script, sendScript } from './script.js'

/** An estimate older than this is replaced by the next answer. */
const RENEW_AFTER_MS = 30_000
/** Within five minutes clocks drift apart by about 30 ms. */
const TRUST_FOR_MS = 300_000

/**
 * Estimates the server's clock from its answers. An answer is slightly older than its arrival, so an estimate is never
 * ahead of the server unless the server's clock was set back; an answer that contradicts the estimate replaces it.
 */
export class ServerClockBelow {
  #offsetMs: number | undefined
  #learntAt = 0

  /**
   * An answer arrived that was given when the server's clock showed `serverNowMs`. `sentAt`, by `performance.now()`, is
   * when the request was sent: it reveals that the server's clock was set back.
   */
  learn(serverNowMs: number, sentAt = Number.NEGATIVE_INFINITY): void {
    const now = performance.now()
    const offsetMs = serverNowMs - now
    const known = this.#offsetMs
    const holds = known !== undefined && offsetMs <= known && known <= serverNowMs + 1 - sentAt
    if (holds && now - this.#learntAt < RENEW_AFTER_MS) return
    this.#offsetMs = offsetMs
    this.#learntAt = now
  }

  /** The server's time at a moment of `performance.now()`; undefined while it is not known to about 30 ms. */
  at(moment: number): number | undefined {
    if (this.#offsetMs === undefined || performance.now() - this.#learntAt > TRUST_FOR_MS) return undefined
    return Math.floor(moment + this.#offsetMs)
  }

  /**
   * The moment of `performance.now()` at which the server's clock shows `serverMs`, or slightly later; undefined before
   * the first answer.
   */
  momentOf(serverMs: number): number | undefined {
    return this.#offsetMs === undefined ? undefined : serverMs - this.#offsetMs
  }

  /** The server's clock was set, or it is another server: drops the estimate. */
  forget(): void {
    this.#offsetMs = undefined
  }
}

/** How often a script is sent again that the server refused as late although it is not late by our clock. */
const MOST_REPEATS = 2
const NEVER_LATE = Number.MAX_SAFE_INTEGER
/** The digit, as a byte of a text. */
const ZERO = 0x30

/** The script came after its last moment, and has not acted; nor will a copy of it. */
export class AskedTooLate extends StoreError {
  constructor() {
    super('Redis was asked too late to carry it out', { settled: false })
    this.name = 'StoreError'
  }
}

/** What is known of all copies of one ask. */
export interface Copies {
  /**
   * The latest of the last moments that they were given, by the server's clock; 0 before the first. They differ if one
   * was sent while that clock was unknown.
   */
  latestMs: number
}

/** A script call that is useless after a deadline. */
export interface TimelyCall {
  readonly script: Script
  /** What it does, for errors: "Redis failed to refund". Default: the script's name. */
  readonly does?: string
  readonly keys: readonly string[]
  /**
   * ARGV, including `until`: in ms, the last moment at which the script may act. After that it only returns the time.
   */
  readonly args: (until: ScriptArgument) => readonly ScriptArgument[]
  /** By `performance.now()`; Infinity for a script that changes nothing and may run at any time. */
  readonly endsAt: number
  /** `ClientPort.serverOf` of its keys. */
  readonly server: string
  /** False if the script uses a given clock: then it is never late, but still does not run twice. */
  readonly byServerClock: boolean
  /** False if its answer begins with the server's time only when it came too late. */
  readonly tellsTime?: boolean
  /**
   * Of an ask of a waiting line, whose copies count once however often they come: it need not be voided when the
   * connection is lost, and while the server's clock is unknown, our own stands in for it.
   */
  readonly copies?: Copies
  /**
   * True if a second copy would at most count too much: such a call is repeated by a client that sends each request on
   * its own, if its answer is lost.
   */
  readonly mayRepeat?: boolean
  /** Text after `until` in the same argument, for a script that reads more there. Default: nothing. */
  readonly behindUntil?: string
  /** Turns an answer into a list. `untilMs`: the last moment that the script was given. */
  readonly listOf?: (reply: unknown, untilMs: number) => unknown
}

/**
 * The one way in which limits call scripts: decisions, changes, purchases, lines and drop-ins. Nothing is passed to a
 * client without a connection, and every failure is a `StoreError`. A script acts by its deadline or not at all, and at
 * most once: even if the server stands still, the client holds it until it is connected, or the client repeats it after
 * a lost connection. One for each client.
 *
 * A script is given the last moment at which it may act, by the server's clock. While that clock is unknown, this
 * moment is 0: the script then returns the time, and is sent again.
 */
export class TimelyScripts {
  readonly #clocks = new Map<string, ServerClockBelow>()
  /** In no order. An array, because a Set that is filled and emptied constantly is reallocated constantly. */
  readonly #inFlight: VoidableMoment[] = []
  /**
   * Whether the client exposes everything that it sends; undefined before the first call. If so, texts are sent instead
   * of buffers.
   */
  #showsSent: boolean | undefined
  #lastSent: unknown[] | undefined
  #isFirst = true
  #firstAskedAt: number | undefined
  /** Fail the calls that wait for the first answer. */
  readonly #firstCalls = new Set<() => void>()

  private constructor(readonly port: ClientPort) {
    port.onLost(() => this.#lost())
    port.onReady(() => this.#forgetClocks())
  }

  static of(port: ClientPort): TimelyScripts {
    return getOrMake(SCRIPTS, port, () => new TimelyScripts(port))
  }

  /**
   * The moment of this process's first question, by `performance.now()`, which is now if there was none; undefined once
   * Redis has answered, or the connection was refused or lost. Until then a call also takes the time to connect and to
   * load the script.
   */
  connectsSince(): number | undefined {
    if (!this.#isFirst || notConnected(this.port.state()) !== undefined) return undefined
    this.#firstAskedAt ??= performance.now()
    return this.#firstAskedAt
  }

  /** The estimated time of a server; before its first answer our own time. ms since the epoch. */
  serverNow(server: string): number {
    return this.#clockOf(server).at(performance.now()) ?? Date.now()
  }

  /** A server's clock has shown `nowMs`, after `sentAt` of `performance.now()`. */
  learnNow(server: string, nowMs: number, sentAt = performance.now()): void {
    this.#clockOf(server).learn(nowMs, sentAt)
  }

  /**
   * The last moment at which a server may carry out what is of no use after `endsAt`, by `performance.now()`. While its
   * clock is unknown, our own stands in for it: an answer that it came too late tells the time.
   */
  lastMoment(server: string, endsAt: number): number {
    return this.#clockOf(server).at(endsAt) ?? Math.ceil(Date.now() + endsAt - performance.now())
  }

  /** Resolves to the script's answer. Rejects with `StoreError`, whose cause is the client's error. */
  run(call: TimelyCall): Promise<unknown> {
    return new Promise((resolve, reject) => this.send(call, resolve, reject))
  }

  /**
   * An ask of a waiting line. Rejects with the client's own error, if there is one: a line tells apart which errors
   * repeating would cure.
   */
  runForLine(call: Omit<TimelyCall, 'server' | 'tellsTime'>): Promise<unknown> {
    const server = this.port.serverOf(this.port.slotOf(call.keys[0]))
    return new Promise((resolve, reject) =>
      this.send({ ...call, server, tellsTime: false }, resolve, error => reject(error.cause ?? error)),
    )
  }

  /** As `run`, without a promise: calls `onReply` or `onError` once. */
  send(call: TimelyCall, onReply: (reply: unknown) => void, onError: (error: StoreError) => void, repeats = 0): void {
    const lost = notConnected(this.port.state())
    if (lost !== undefined) {
      onError(lost)
      return
    }
    if (this.#isFirst) [onReply, onError] = this.#untilRefused(onReply, onError)
    const clock = this.#clockOf(call.server)
    const { copies } = call
    const voidable = this.port.sendsAgain && call.endsAt < Number.POSITIVE_INFINITY && copies === undefined
    const untilMs = lastMoment(call, clock, this.port)
    if (copies !== undefined) copies.latestMs = Math.max(copies.latestMs, untilMs)
    const until = untilMs + (call.behindUntil ?? '')
    const moment = new VoidableMoment(voidable && !this.#showsSent ? Buffer.from(until) : until)
    if (voidable) moment.place = this.#inFlight.push(moment) - 1
    const sentAt = performance.now()
    const repeat = () => this.send(call, onReply, onError, repeats + 1)
    const args = call.args(moment.argument)
    // If the client sends it again, and the server then knows no script, its text goes out with these arguments.
    if (voidable) moment.find(args)
    sendScript(this.port, call.script, call.keys, args, {
      terms: { endsAt: copies ? undefined : call.endsAt, mayRepeat: call.mayRepeat || copies !== undefined },
      onSent: voidable ? () => moment.isVoid || this.#find(moment) : undefined,
      onReply: answer => {
        this.#isFirst = false
        if (voidable) this.#ended(moment)
        const reply = call.listOf === undefined ? answer : call.listOf(answer, untilMs)
        const isTold = Array.isArray(reply) && (reply.length === 1 || call.tellsTime !== false)
        const now = isTold ? Number(reply[0] ?? Number.NaN) : Number.NaN
        if (call.byServerClock && now > 0) clock.learn(now, sentAt)
        if (!Array.isArray(reply) || reply.length !== 1 || Number.isNaN(now)) onReply(reply)
        else if (moment.isVoid) onError(new StoreError('the connection to Redis was lost before the answer came'))
        else if (repeats < MOST_REPEATS && performance.now() < call.endsAt) repeat()
        else if (copies !== undefined && now <= copies.latestMs) {
          onError(new StoreError('Redis was asked too late, and a copy may be in time'))
        } else onError(new AskedTooLate())
      },
      onError: error => {
        this.#isFirst = false
        if (voidable) this.#ended(moment)
        const now = calendarNow(error)
        if (now === undefined || moment.isVoid || repeats >= MOST_REPEATS) {
          onError(failure(call, error))
          return
        }
        clock.learn(now, sentAt)
        repeat()
      },
    })
  }

  /**
   * The callbacks of a call before the first answer: it fails as soon as the connection is refused or lost, although
   * the client may keep the command.
   */
  #untilRefused<Reply, Failure>(
    onReply: (reply: Reply) => void,
    onError: (error: Failure | StoreError) => void,
  ): [(reply: Reply) => void, (error: Failure) => void] {
    const refused = () => onError(new StoreError('the connection to Redis was refused or closed'))
    this.#firstCalls.add(refused)
    return [
      reply => {
        if (this.#firstCalls.delete(refused)) onReply(reply)
      },
      error => {
        if (this.#firstCalls.delete(refused)) onError(error)
      },
    ]
  }

  /** Finds the arguments in the client's queue, so that they can be changed there. */
  #find(moment: VoidableMoment): void {
    const sent = this.port.lastSent?.()
    // With a wrapped client that sends later, the last command is another one.
    const found = sent !== undefined && sent !== this.#lastSent && moment.find(sent)
    this.#lastSent = sent
    this.#showsSent = found && this.#showsSent !== false
  }

  #ended({ place }: VoidableMoment): void {
    const last = this.#inFlight.pop() as VoidableMoment
    if (last.place === place) return
    this.#inFlight[place] = last
    last.place = place
  }

  #clockOf(server: string): ServerClockBelow {
    let clock = this.#clocks.get(server)
    if (clock === undefined) {
      clock = new ServerClockBelow()
      this.#clocks.set(server, clock)
    }
    return clock
  }

  /** A command that the client sends again may have been carried out already. */
  #lost(): void {
    this.#isFirst = false
    for (const moment of this.#inFlight) moment.void()
    this.#forgetClocks()
    const refused = [...this.#firstCalls]
    this.#firstCalls.clear()
    for (const fail of refused) fail()
  }

  /** The next server may have another time. */
  #forgetClocks(): void {
    for (const clock of this.#clocks.values()) clock.forget()
  }
}

function failure({ does, script }: TimelyCall, cause: unknown): StoreError {
  if (cause instanceof StoreError) return cause
  return new StoreError(`Redis failed to ${does ?? script.name}: ${(cause as Error)?.message ?? shown(cause)}`, {
    cause,
  })
}

/**
 * The server's time, if a script has refused to act because the server is in another calendar window than the script
 * was told: see check_calendar in lua/limiter/limits.lua.
 */
function calendarNow(error: unknown): number | undefined {
  const [, now] = (error instanceof Error && /\bCALENDAR (\d+)/.exec(error.message)) || []
  return now === undefined ? undefined : Number(now)
}

/**
 * The last moment at which a script may act. While the server's clock is unknown it is 0; but our own clock stands in
 * for it in a numbered call, and in a decision where no connection holds commands back: over HTTP, a first request only
 * for the time would make every new instance wait twice. A decision that is late by the difference counts too much; a
 * late change could give back what others have spent since.
 */
function lastMoment(call: TimelyCall, clock: ServerClockBelow, port: ClientPort): number {
  const { byServerClock, endsAt, copies, mayRepeat } = call
  if (!byServerClock || endsAt === Number.POSITIVE_INFINITY) return NEVER_LATE
  const hasStand = copies !== undefined || (mayRepeat && port.beforeSending !== undefined)
  const stand = hasStand ? Math.ceil(Date.now() + endsAt - performance.now()) : 0
  return clock.at(endsAt + GRACE_MS) ?? stand
}

const SCRIPTS = new WeakMap<ClientPort, TimelyScripts>()

/**
 * The last moment at which a script may act. A client must not repeat a command with this moment unchanged: a text is
 * replaced in the client's queue; a buffer is overwritten, but a command with a buffer takes twice as long to write.
 */
class VoidableMoment {
  isVoid = false
  /** Its index among those in flight. */
  place = -1
  /** The lists of arguments that have it, and where. */
  readonly #in: Array<readonly [args: unknown[], at: number]> = []

  constructor(readonly argument: ScriptArgument) {}

  /** Whether it is among these arguments. */
  find(args: readonly unknown[]): boolean {
    const at = args.indexOf(this.argument)
    if (at >= 0) this.#in.push([args as unknown[], at])
    return at >= 0
  }

  void(): void {
    this.isVoid = true
    if (typeof this.argument !== 'string') this.argument.fill(ZERO)
    else for (const [args, at] of this.#in) args[at] = '0'.repeat(this.argument.length)
  }
}
