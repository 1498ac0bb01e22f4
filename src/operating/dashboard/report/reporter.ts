import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { asyncDispose } from '../../../limiter/core/async-dispose.js'
import type { Decision } from '../../../limiter/core/decision.js'
import { type Duration, parseOption } from '../../../limiter/core/duration.js'
import { BoundedMap } from '../../../limiter/core/maps.js'
import type { Observer } from '../../../limiter/core/observer.js'
import { objectId } from '../../object-index.js'
import { alerts } from '../../observing/alerts/index.js'
import { objectFacts, type ProcessRecord, type QueueTrouble, useNotes } from '../records.js'
import { DecisionSums, RecentActivity } from './activity.js'
import { Happenings } from './happenings.js'
import { type FiringAlerts, parseReporterOptions, type ReporterOptions } from './options.js'
import { type ObjectNotes, ReportSender } from './sender.js'

export type { ReporterOptions } from './options.js'

type EventOf<Method extends keyof Observer> = Parameters<NonNullable<Observer[Method]>>[0]

/** Queues in trouble that a report names; one that was told for the last time so long ago works again. */
const MOST_TROUBLES = 20
const TROUBLE_MS = 75_000
/** Most names of shared objects that one process reports. */
const MOST_OBJECTS = 1000
const RENEW_MS = 3_600_000
/** While nothing happens, but something is held, waits or fires: often enough to be told apart from a dead process. */
const STILL_MS = 10_000
/** Most alerts that a process tells of. */
const MOST_ALERTS = 20

/**
 * Reports to the dashboard what this process decides. Pass it as `observer` to limiters and shared objects. It sends
 * one small script call every `every` during activity, and nothing otherwise; its counts expire after 15 minutes, their
 * sums of a minute after an hour and those of ten minutes after a day, its own record after an hour. A failing Redis
 * delays no decision: counts are sent when it is back. It judges what it hears by the default rules of `alerts`, unless
 * it is given others. Throws `PolicyError` for invalid options.
 */
export function reporter(options: ReporterOptions): Observer & ReportEnd {
  return new Reporter(options)
}

/** The additional method of a reporter. */
interface ReportEnd extends AsyncDisposable {
  /** Sends what has not been sent, and stops reporting. */
  close(): Promise<void>
}

class Reporter implements Observer, ReportEnd {
  readonly #settings: ReturnType<typeof parseReporterOptions>
  readonly #sender: ReportSender
  readonly #happenings: Happenings
  /** Judges by the default rules, if none are given. */
  readonly #judge: ReturnType<typeof alerts> | undefined
  readonly #sums: DecisionSums
  readonly #recentActivity: RecentActivity
  readonly #objects = new Map<string, { facts: ReturnType<typeof objectFacts>; notedAt: number }>()
  readonly #startedAt = Math.round(Date.now() - process.uptime() * 1000)
  #timer: ReturnType<typeof setTimeout> | undefined
  /** The timer is a longer one, because nothing happens. */
  #isResting = false
  #news = false
  /** The last report said that nothing happens. */
  #isSilent = false
  #decisions = 0
  #tookAt = performance.now()
  #answers = { count: 0, ms: 0 }
  #breakers = 0
  #breaker: { since: number; reason: string } | undefined
  /** By queue: consumers that cannot work, and when they last said so. */
  readonly #troubles = new BoundedMap<string, { since: number; reason: string; toldAt: number }>(MOST_TROUBLES)
  #closed: Promise<void> | undefined

  constructor(options: ReporterOptions) {
    this.#settings = parseReporterOptions(options)
    if (this.#settings.alerts === undefined) this.#judge = alerts({ notify: () => this.#happened() })
    const { client, prefix, keyNames, topKeys, service, version } = this.#settings
    this.#happenings = new Happenings({ service, version, startedAt: this.#startedAt })
    this.#sender = new ReportSender(client, prefix, randomBytes(6).toString('base64url'), () => this.#forgetNotes())
    this.#sums = new DecisionSums(prefix, keyNames)
    this.#recentActivity = new RecentActivity(topKeys)
  }

  // Arrow functions, because callers may detach an observer's methods.
  readonly decided = (decision: Decision, limiter: string): void => {
    this.#decisions++
    if (decision.degraded) this.#happenings.degraded()
    this.#sums.add(decision, limiter)
    this.#recentActivity.decided(limiter, decision.key, decision.allowed)
    this.#judge?.decided?.(decision, limiter)
    this.#happened()
  }

  readonly storeAnswered = ({ durationMs }: EventOf<'storeAnswered'>): void => {
    this.#answers.count++
    this.#answers.ms += durationMs
  }

  readonly breakerOpened = (error: Error): void => {
    this.#breakers++
    if (this.#breaker === undefined) {
      this.#breaker = { since: Date.now(), reason: reasonOf(error) }
      this.#happenings.outageBegan(this.#breaker.since, this.#breaker.reason)
    }
    this.#judge?.breakerOpened?.(error)
    this.#happened()
  }

  readonly breakerClosed = (): void => {
    this.#breakers = Math.max(0, this.#breakers - 1)
    if (this.#breakers === 0) {
      this.#breaker = undefined
      this.#happenings.outageEnded(Date.now())
    }
    this.#judge?.breakerClosed?.()
    this.#happened()
  }

  readonly consumerFailed = (event: EventOf<'consumerFailed'>): void => {
    const { queue, error } = event
    this.#noteObject('queue', queue)
    this.#judge?.consumerFailed?.(event)
    const since = this.#troubles.get(queue)?.since ?? Date.now()
    this.#troubles.set(queue, { since, reason: reasonOf(error), toldAt: performance.now() })
    this.#happened()
  }

  readonly waited = ({ object, name }: EventOf<'waited'>): void => {
    this.#noteObject(object, name)
    this.#happened()
  }

  readonly delivered = (event: EventOf<'delivered'>): void => {
    const { queue, latenessMs, attempt } = event
    this.#noteObject('queue', queue)
    this.#judge?.delivered?.(event)
    this.#recentActivity.delivered(queue, latenessMs, attempt)
    this.#happened()
  }

  readonly settledDelivery = (event: EventOf<'settledDelivery'>): void => {
    this.#noteObject('queue', event.queue)
    this.#judge?.settledDelivery?.(event)
    this.#happened()
  }

  readonly level = (event: EventOf<'level'>): void => {
    this.#noteObject(event.object, event.name)
    this.#recentActivity.level(event)
    this.#judge?.level?.(event)
    this.#happened()
  }

  readonly holding = ({ object, name, holds }: EventOf<'holding'>): void => {
    this.#recentActivity.holding(object, name, holds)
  }

  /** Sends the remaining counts, and that this process is gone. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#judge?.close()
    if (this.#news) this.#report(true)
    await this.#sender.close()
  }

  #happened(): void {
    this.#news = true
    if (this.#closed !== undefined || (this.#timer !== undefined && !this.#isResting)) return
    this.#reportIn(this.#settings.everyMs)
  }

  #reportIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#isResting = ms > this.#settings.everyMs
    this.#timer = setTimeout(() => this.#tick(), ms)
    this.#timer.unref()
  }

  /**
   * Continues during activity, while counts are unsent, and more rarely while something is held, waits or fires; the
   * last report says that it is the last. Alerts that were given may begin afterwards.
   */
  #tick(): void {
    this.#timer = undefined
    const isBusy = this.#decisions > 0 || this.#news || this.#sender.hasPending
    const isSilent = !isBusy && !this.#isStill
    if (!isSilent || !this.#isSilent) this.#report(isBusy)
    this.#isSilent = isSilent
    if (isBusy) this.#reportIn(this.#settings.everyMs)
    else if (!isSilent || this.#judge === undefined) this.#reportIn(STILL_MS)
  }

  /** Whether there is something to tell although nothing happens. */
  get #isStill(): boolean {
    return (
      this.#breaker !== undefined || this.#firing.length > 0 || this.#troubles.size > 0 || this.#recentActivity.isHeld
    )
  }

  /** What fires, one of each rule before others of the same. */
  get #firing(): FiringAlerts['firing'] {
    const { firing } = this.#settings.alerts ?? (this.#judge as FiringAlerts)
    if (firing.length <= MOST_ALERTS) return firing
    const isFirst = (alert: (typeof firing)[number], i: number) =>
      firing.findIndex(({ rule }) => rule.name === alert.rule.name) === i
    return [...firing.filter(isFirst), ...firing.filter((alert, i) => !isFirst(alert, i))]
  }

  #report(isBusy: boolean): void {
    const now = performance.now()
    const rows = this.#sums.take()
    const spanMs = Math.max(1, Math.min(now - this.#tookAt, this.#settings.everyMs))
    const notes = [...this.#sums.notes(rows, now), ...this.#objectNotes(now)]
    const record = this.#record(now, isBusy)
    this.#sender.send({
      record,
      events: this.#happenings.take(record.alerts ?? [], Date.now()),
      details: this.#recentActivity.details(),
      rows,
      notes: [...notes, ...useNotes(this.#settings.service, notes)],
      spanMs,
      isLast: !isBusy,
    })
    this.#news = false
    this.#decisions = 0
    this.#answers = { count: 0, ms: 0 }
    this.#tookAt = now
  }

  #record(now: number, isBusy: boolean): ProcessRecord {
    const { service, version, everyMs } = this.#settings
    const firing = this.#firing
    const { count, ms } = this.#answers
    const troubles = this.#troublesAt(now)
    return {
      service,
      version,
      host: hostname(),
      pid: process.pid,
      startedAt: this.#startedAt,
      everyMs,
      perSecond: round(this.#decisions / (Math.max(everyMs, now - this.#tookAt) / 1000)),
      ...(!isBusy && !this.#isStill && { idle: true }),
      ...(count > 0 && { answerMs: round(ms / count) }),
      ...(this.#breaker !== undefined && { breaker: this.#breaker }),
      ...(troubles.length > 0 && { troubles }),
      ...(firing.length > 0 && {
        alerts: firing.slice(0, MOST_ALERTS).map(({ rule, subject, value, at }) => ({
          rule: rule.name,
          when: rule.when,
          subject,
          value,
          since: at.getTime(),
          ...(rule.when !== 'breaker-open' && rule.when !== 'consumer-failed' && { overMs: overMsOf(rule) }),
        })),
      }),
      ...(firing.length > MOST_ALERTS && { moreAlerts: firing.length - MOST_ALERTS }),
    }
  }

  /** Those that were told lately: while a trouble lasts, that is each minute. */
  #troublesAt(now: number): QueueTrouble[] {
    for (const [queue, { toldAt }] of this.#troubles) if (now - toldAt > TROUBLE_MS) this.#troubles.delete(queue)
    return [...this.#troubles].map(([queue, { since, reason }]) => ({ queue, since, reason }))
  }

  #noteObject(kind: string, name: string): void {
    if (kind !== 'rate' && kind !== 'semaphore' && kind !== 'queue') return
    const id = objectId(kind, name)
    if (this.#objects.has(id) || this.#objects.size >= MOST_OBJECTS) return
    this.#objects.set(id, { facts: objectFacts(kind, name), notedAt: Number.NEGATIVE_INFINITY })
  }

  #forgetNotes(): void {
    this.#sums.forgetNotes()
    for (const object of this.#objects.values()) object.notedAt = Number.NEGATIVE_INFINITY
    this.#happened()
  }

  #objectNotes(now: number): ObjectNotes {
    const notes: Array<ObjectNotes[number]> = []
    for (const [id, object] of this.#objects) {
      if (now - object.notedAt < RENEW_MS) continue
      object.notedAt = now
      notes.push([id, object.facts])
    }
    return notes
  }
}

function overMsOf({ over = '1m' }: { readonly over?: Duration }): number {
  return parseOption(over, 'reporter: alerts: over')
}

function reasonOf(error: Error): string {
  return String(error?.message ?? error).slice(0, 200)
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}
