import { StoreError } from '../core/errors.js'
import type { ClientPort, ScriptArgument } from './client.js'
import { runScript } from './run-script.js'
import type { Script } from './script.js'
import { ServerClock } from './server-clock.js'

/** How much later than its deadline a script may still act, by the server's clock. */
export const GRACE_MS = 50
/** How often a script is sent again that the server refused as late although it is not late by our clock. */
const MOST_REPEATS = 2
const NEVER_LATE = String(Number.MAX_SAFE_INTEGER)

/** A script call that is of use until a deadline only. */
export interface TimelyCall {
  readonly script: Script
  readonly keys: readonly string[]
  /** ARGV, of which `until` is one: in ms, the last moment at which the script acts. Later it only answers the time. */
  readonly args: (until: ScriptArgument) => readonly ScriptArgument[]
  /** By `performance.now()`; Infinity for a script that changes nothing, which may act whenever it comes. */
  readonly endsAt: number
  /** `ClientPort.serverOf` of its keys. */
  readonly server: string
  /** False if the script goes by a clock that it was given: nothing is late by that, but it still is not carried out twice. */
  readonly byServerClock: boolean
  /** What follows `until` in its argument, for a script that reads more there. Default: nothing. */
  readonly behindUntil?: string
}

/**
 * Runs scripts that act by their deadline or not at all, and once: also when the server stands still, when the client holds them until
 * it is connected, and when it sends them again after a lost connection. There is one for each client.
 *
 * A script is given the last moment at which it acts, by the server's clock. While that clock is not known, this moment is 0: the
 * script then answers the time, and is asked again.
 */
export class TimelyScripts {
  readonly #clocks = new Map<string, ServerClock>()
  /** In no order. No Set: one that is filled and emptied all the time is made anew all the time. */
  readonly #inFlight: Bound[] = []

  private constructor(readonly port: ClientPort) {
    port.onLost(() => this.#lost())
    port.onReady(() => this.#forgetClocks())
  }

  static of(port: ClientPort): TimelyScripts {
    let scripts = SCRIPTS.get(port)
    if (scripts === undefined) {
      scripts = new TimelyScripts(port)
      SCRIPTS.set(port, scripts)
    }
    return scripts
  }

  /** What the clock of a server shows, as far as its answers tell; before the first answer what ours shows. ms since the epoch. */
  serverNow(server: string): number {
    return this.#clockOf(server).at(performance.now()) ?? Date.now()
  }

  /** A server's clock has just shown `nowMs`. */
  learnNow(server: string, nowMs: number): void {
    this.#clockOf(server).learn(nowMs, performance.now())
  }

  /** Resolves to the script's answer. Rejects with `StoreError` if the script ran too late to act, or with the client's error. */
  run(call: TimelyCall, repeats = 0): Promise<unknown> {
    const clock = this.#clockOf(call.server)
    const voidable = this.port.sendsAgain && call.endsAt < Number.POSITIVE_INFINITY
    const bound = new Bound(lastMoment(call, clock) + (call.behindUntil ?? ''), voidable)
    if (voidable) bound.place = this.#inFlight.push(bound) - 1
    const sentAt = performance.now()
    return runScript(this.port, call.script, call.keys, call.args(bound.argument)).then(
      reply => {
        if (voidable) this.#ended(bound)
        const now = Array.isArray(reply) ? Number(reply[0] ?? Number.NaN) : Number.NaN
        if (call.byServerClock && now > 0) clock.learn(now, sentAt)
        if (!Array.isArray(reply) || reply.length !== 1 || Number.isNaN(now)) return reply
        if (bound.isVoid) throw new StoreError('the connection to Redis was lost before the answer came')
        if (repeats >= MOST_REPEATS || performance.now() >= call.endsAt) {
          throw new StoreError('Redis was asked too late to carry it out')
        }
        return this.run(call, repeats + 1)
      },
      error => {
        if (voidable) this.#ended(bound)
        const now = calendarNow(error)
        if (now === undefined || bound.isVoid || repeats >= MOST_REPEATS) throw error
        clock.learn(now, sentAt)
        return this.run(call, repeats + 1)
      },
    )
  }

  #ended({ place }: Bound): void {
    const last = this.#inFlight.pop() as Bound
    if (last.place === place) return
    this.#inFlight[place] = last
    last.place = place
  }

  #clockOf(server: string): ServerClock {
    let clock = this.#clocks.get(server)
    if (clock === undefined) {
      clock = new ServerClock()
      this.#clocks.set(server, clock)
    }
    return clock
  }

  /** A command that the client sends again may have been carried out already. */
  #lost(): void {
    for (const bound of this.#inFlight) bound.void()
    this.#forgetClocks()
  }

  /** The next server may show another time. */
  #forgetClocks(): void {
    for (const clock of this.#clocks.values()) clock.forget()
  }
}

/**
 * What the server's clock shows, if a script has refused to act because the present window of the calendar is another one than it was told:
 * see lua/steps/calendar_now.lua.
 */
export function calendarNow(error: unknown): number | undefined {
  const [, now] = (error instanceof Error && /\bCALENDAR (\d+)/.exec(error.message)) || []
  return now === undefined ? undefined : Number(now)
}

/** The text of the last moment at which a script acts: 0 while the server's clock is not known. */
function lastMoment({ byServerClock, endsAt }: TimelyCall, clock: ServerClock): string {
  if (!byServerClock || endsAt === Number.POSITIVE_INFINITY) return NEVER_LATE
  return String(clock.at(endsAt + GRACE_MS) ?? 0)
}

const SCRIPTS = new WeakMap<ClientPort, TimelyScripts>()

/** The last moment at which a script acts. A client that sends commands again reads it again, as it is then: so it is a buffer. */
class Bound {
  readonly argument: ScriptArgument
  isVoid = false
  /** Where it stands among those that are in flight. */
  place = -1

  constructor(text: string, voidable: boolean) {
    this.argument = voidable ? Buffer.from(text) : text
  }

  void(): void {
    this.isVoid = true
    if (typeof this.argument !== 'string') this.argument.fill('0')
  }
}
