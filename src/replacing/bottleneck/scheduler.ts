import { Alarm, realTiming } from '../../limiter/core/alarms.js'
import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import type { Listeners } from './events.js'
import { EXECUTING, GONE, Job, QUEUED, Queue, RECEIVED, RUNNING } from './job.js'
import { BottleneckError, STRATEGIES } from './options.js'
import { JobStates } from './states.js'
import { type Answer, BLOCKED, type Errand, FULL, type LimiterStore, type Tick, TOO_HEAVY } from './store.js'
import type { JobWatch } from './watch.js'

/** Most heads, and most new jobs, of one tick. */
const MOST_HEADS = 64
const MOST_RECEIVED = 256
/** So many new jobs of a limiter with limits begin one after another: each when a short one before it has ended. */
const FEW = 10

/** An end of a job that is told when its place has come back. */
interface Freed {
  readonly job: Job
  readonly settle: () => void
}

/** The limiter whose jobs they are. */
interface Host {
  readonly Events: Listeners
  readonly _store: LimiterStore
  readonly _watch: JobWatch
  readonly rejectOnDrop: boolean
  readonly trackDoneStatus: boolean
  /** Where jobs wait when they are executed. */
  readonly chained: { schedule(options: object, task: Job['task'], ...args: unknown[]): Promise<unknown> } | null
}

/**
 * Takes jobs from their arrival to their end. What may run is decided by the limiter's store, once in a turn of the
 * event loop.
 */
export class Scheduler {
  readonly queue = new Queue()
  readonly states = new JobStates()
  /** Why no job is taken any more. */
  stopped: string | undefined
  /** By `performance.now()`. */
  usedAt = performance.now()
  /** Jobs and errands that the store has not seen. */
  #inbox: (Job | Errand)[] = []
  #freed: Freed[] = []
  /** The weight of all jobs that have a place; how many of them never expire; and when the last of the others does. */
  #held = 0
  #endless = 0
  #expiresAt = 0
  #isAsked = false
  #isAsking = false
  /** Few jobs begin one after another. Over Redis they do without timers. */
  #paces = false
  /** Jobs end before Redis has their places again: it is so without `maxConcurrent`. */
  #settlesAtOnce = false
  #heads = 1
  /**
   * Most new jobs of the next tick. The first one goes alone: it may have ended before those after it are decided, as
   * with a store that decides one job at a time.
   */
  #batch = 1
  /**
   * The job that was executed last, until it has ended or a timer of 0 ms that it sets has rung: as with bottleneck,
   * which waits for timers between two jobs.
   */
  #newest: Job | undefined
  readonly #again = new Alarm(() => this.ask())
  readonly #renewal = new Alarm(() => this.ask(), false)

  constructor(readonly host: Host) {}

  /** True if no job waits. */
  get isEmpty(): boolean {
    return this.queue.length === 0 && this.states.in(RECEIVED) === 0
  }

  /** True while there is anything to do or to tell the store. */
  get isBusy(): boolean {
    return this.states.open > 0 || this.#freed.length > 0 || this.#inbox.length > 0 || this.#isAsking
  }

  /** No longer asks the store again by itself. */
  rest(): void {
    this.#again.clear()
    this.#renewal.clear()
  }

  /** Drops the queue, as all processes do when one of them blocks. */
  dropQueue(): void {
    for (let job = this.queue.shift(); job !== undefined; job = this.queue.shift()) this.drop(job)
  }

  /** Drops all jobs that are not executed yet. */
  dropWaiting(message: string): void {
    for (const job of [...this.states]) {
      if (job.status >= EXECUTING) continue
      const hasPlace = job.status === RUNNING
      job.timer?.clear()
      this.drop(job, new BottleneckError(message))
      if (hasPlace) this.free(job, () => {})
    }
    while (this.queue.shift() !== undefined) {}
  }

  /** A new job. Rejects it if the limiter was stopped, or its id is taken. */
  receive(job: Job): void {
    if (this.stopped !== undefined) job.reject(new BottleneckError(this.stopped))
    else if (!this.states.add(job)) {
      job.reject(new BottleneckError(`A job with the same id already exists (id=${job.options.id})`))
    } else {
      if (this.host.Events.hears('received')) this.#tell('received', { args: job.args, options: job.options })
      this.host._watch.received(job)
      this.#inbox.push(job)
      if (!this.#waitsForNewest) this.ask()
      return
    }
    job.decided?.(false)
  }

  run(errand: Errand): void {
    this.#inbox.push(errand)
    this.ask()
  }

  free(job: Job, settle: () => void): void {
    this.#held -= job.options.weight
    if (job.options.expiration === null) this.#endless--
    this.#freed.push({ job, settle })
    this.ask()
  }

  /** Asks the store in the next turn of the event loop, or when its answer is here. */
  ask(): void {
    if (this.#isAsked) return
    this.#isAsked = true
    if (!this.#isAsking) realTiming.nextTurn(() => this.#tick())
  }

  #tick(): void {
    this.#isAsked = false
    this.#isAsking = true
    this.usedAt = performance.now()
    const received: Job[] = []
    if (this.stopped !== undefined)
      this.#inbox = this.#inbox.filter(item => !(item instanceof Job && item.status === GONE))
    for (const item of this.#inbox) {
      if (!(item instanceof Job) || received.length === this.#batch || this.#waitsForNewest) break
      received.push(item)
    }
    const next = this.#inbox[received.length]
    const freed = this.#freed
    this.#freed = []
    const tick: Tick = {
      freed: freed.map(({ job }) => job),
      ended: freed.reduce((sum, { job }) => sum + (job.turns > 0 ? job.options.weight : 0), 0),
      heads: this.queue.heads(this.#heads),
      queued: this.queue.length,
      received,
      held: this.#held,
      longestMs: this.#endless > 0 ? -1 : Math.max(0, this.#expiresAt - performance.now()),
      errand: next instanceof Job ? undefined : next,
    }
    const answer = this.host._store.tick(tick)
    if (answer instanceof Promise) {
      answer.then(
        result => {
          this.#settlesAtOnce = result.maxConcurrent === null
          this.#apply(tick, freed, result)
        },
        error => this.#refused(tick, freed, error),
      )
    } else {
      this.#paces = answer.maxConcurrent !== null || answer.reservoir !== null
      this.#apply(tick, freed, answer)
    }
  }

  #apply(tick: Tick, freed: readonly Freed[], answer: Answer): void {
    const { waits, verdicts, result } = answer
    this.host._watch.left(answer.reservoir)
    for (const { job, settle } of freed) {
      this.#debug(`Freed ${job.options.id}`)
      if (job === freed.at(-1)?.job && answer.running === 0 && this.isEmpty) this.#tell('idle')
      settle()
    }
    if (answer.dropsQueue) this.dropQueue()
    // Of the last one that is launched, the reservoir is the answer's; before, it was higher by what came later.
    let reservoir = answer.reservoir
    if (reservoir !== null) {
      for (let i = 0; i < waits.length; i++) reservoir += tick.heads[i].options.weight
      for (let i = 0; i < verdicts.length; i++) if (verdicts[i] >= 0) reservoir += tick.received[i].options.weight
    }
    const launched = (job: Job, wait: number) => {
      if (reservoir !== null) reservoir -= job.options.weight
      this.#launch(job, wait, reservoir)
    }
    for (let i = 0; i < waits.length; i++) {
      // Unless the queue was dropped meanwhile.
      if (tick.heads[i].status === QUEUED) this.queue.shift()
      launched(tick.heads[i], waits[i])
    }
    for (let i = 0; i < verdicts.length; i++) this.#decide(tick.received[i], verdicts[i], answer, launched)
    const isCarriedOut = result !== undefined
    this.#inbox = this.#inbox.slice(verdicts.length + (isCarriedOut ? 1 : 0))
    if (isCarriedOut) tick.errand?.resolve(result)
    this.#isAsking = false
    const hasMore = waits.length === tick.heads.length && this.queue.length > 0
    const isWhole = this.#inbox.length === 0 || (this.#batch === 1 && this.#areFew)
    this.#batch = isWhole ? 1 : Math.min(MOST_RECEIVED, this.#batch * 2)
    this.#heads = Math.min(MOST_HEADS, hasMore ? this.#heads * 2 : waits.length + 1)
    const isChanged =
      isCarriedOut && (tick.errand?.verb === 'add' || tick.errand?.verb === 'set') && this.queue.length > 0
    if (hasMore || isChanged || (this.#inbox.length > 0 && !this.#waitsForNewest) || this.#isAsked) {
      this.#isAsked = false
      this.ask()
    }
    const now = performance.now()
    this.#again.set(this.queue.length > 0 ? now + answer.againMs : Number.POSITIVE_INFINITY)
    this.#renewal.set(this.queue.length > 0 || this.#held > 0 ? now + answer.renewMs : Number.POSITIVE_INFINITY)
  }

  /** The store can decide nothing: not because it cannot be reached, but because it refuses. */
  #refused(tick: Tick, freed: readonly Freed[], error: unknown): void {
    // That it was disconnected is no failure: its jobs are told.
    if (!(error instanceof BottleneckError)) this.#tell('error', error)
    this.#inbox = this.#inbox.slice(tick.received.length + (tick.errand === undefined ? 0 : 1))
    for (const job of tick.received) {
      this.#debug(`Could not queue ${job.options.id}`)
      this.drop(job, error)
      job.decided?.(false)
    }
    tick.errand?.reject(error)
    for (const { settle } of freed) settle()
    this.#isAsking = false
    this.#again.set(this.queue.length > 0 ? performance.now() + 1000 : Number.POSITIVE_INFINITY)
    if (this.#isAsked || this.#inbox.length > 0) {
      this.#isAsked = false
      this.ask()
    }
  }

  #decide(job: Job, verdict: number, answer: Answer, launched: (job: Job, wait: number) => void): void {
    if (job.status !== RECEIVED) {
      if (verdict >= 0) launched(job, verdict)
      return
    }
    let reached = false
    if (verdict === TOO_HEAVY) this.drop(job, tooHeavy(job.options.weight, answer.maxConcurrent))
    else if (verdict === BLOCKED) {
      this.dropQueue()
      this.drop(job)
      reached = true
    } else {
      reached = verdict === FULL
      if (reached && !this.#makeRoom(job, answer.strategy)) this.drop(job)
      else {
        this.states.move(job, QUEUED)
        if (this.host.Events.hears('queued')) {
          this.#tell('queued', { args: job.args, options: job.options, reachedHWM: reached, blocked: false })
        }
        if (verdict >= 0) launched(job, verdict)
        else this.queue.push(job)
      }
    }
    job.decided?.(reached)
  }

  /** Drops a job of the queue for another one. False: the new one is to be dropped. */
  #makeRoom(job: Job, strategy: number): boolean {
    if (strategy === STRATEGIES.OVERFLOW) return false
    const dropped = this.queue.shiftLast(job.options.priority + (strategy === STRATEGIES.OVERFLOW_PRIORITY ? 1 : 0))
    if (dropped !== undefined) this.drop(dropped)
    return dropped !== undefined
  }

  /** A job has got its place. `reservoir`: what is left. */
  #launch(job: Job, wait: number, reservoir: number | null): void {
    const { weight, expiration } = job.options
    this.#held += weight
    if (expiration === null) this.#endless++
    else this.#expiresAt = Math.max(this.#expiresAt, performance.now() + wait + expiration)
    if (job.status === GONE) {
      this.free(job, () => {})
      return
    }
    this.#debug(`Drained ${job.options.id}`)
    const isEmpty = this.isEmpty
    if (isEmpty) this.#tell('empty')
    if (reservoir === 0) this.#tell('depleted', isEmpty)
    this.states.move(job, RUNNING)
    this.#executeIn(job, wait)
  }

  #executeIn(job: Job, wait: number): void {
    if (this.host.Events.hears('scheduled')) this.#tell('scheduled', { args: job.args, options: job.options })
    if (wait <= 0) {
      realTiming.nextTurn(() => this.#execute(job))
      return
    }
    this.#timerOf(job).set(performance.now() + wait)
  }

  /** It launches a job; during an attempt it ends this. */
  #timerOf(job: Job): Alarm {
    job.timer ??= new Alarm(() => (job.turns % 2 === 0 ? this.#execute(job) : this.#expired(job)))
    return job.timer
  }

  #execute(job: Job): void {
    if (job.status === GONE) return
    const { args, options, retryCount } = job
    if (retryCount === 0) {
      this.states.move(job, EXECUTING)
      this.host._watch.executes(job)
    }
    const info = { args, options, retryCount }
    if (this.host.Events.hears('executing')) this.#tell('executing', info)
    const turn = ++job.turns
    const ends = () => {
      // An attempt that expired has ended, whatever its function does later.
      if (job.turns !== turn) return false
      job.turns++
      job.timer?.clear()
      this.#isOld(job)
      return true
    }
    if (options.expiration !== null) {
      const expiresAt = performance.now() + Math.min(options.expiration, LONGEST_TIMER_MS)
      this.#timerOf(job).set(expiresAt)
      this.#expiresAt = Math.max(this.#expiresAt, expiresAt)
    }
    resultOf(() =>
      this.host.chained === null ? job.task(...args) : this.host.chained.schedule(options, job.task, ...args),
    ).then(
      value => {
        if (ends()) this.#finished(job, info, () => job.resolve(value))
      },
      error => {
        if (ends()) this.#failed(job, error, info)
      },
    )
    if (!this.#paces || this.#batch > 1) return
    this.#newest = job
    // All that it does at once is done by then.
    realTiming.nextTurn(() => setTimeout(() => this.#isOld(job), 0))
  }

  /** What comes after this job need not wait for it any more. */
  #isOld(job: Job): void {
    if (this.#newest !== job) return
    this.#newest = undefined
    if (this.#inbox.length > 0) this.ask()
  }

  get #areFew(): boolean {
    return this.#paces && this.#inbox.length <= FEW
  }

  get #waitsForNewest(): boolean {
    return this.#newest !== undefined && this.#batch === 1 && this.#areFew
  }

  #expired(job: Job): void {
    const { args, options, retryCount } = job
    job.turns++
    const error = new BottleneckError(`This job timed out after ${options.expiration} ms.`)
    void this.#failed(job, error, { args, options, retryCount })
  }

  async #failed(job: Job, error: unknown, info: object): Promise<void> {
    const retry: unknown = this.host.Events.hears('failed')
      ? await this.host.Events.trigger('failed', error, info)
      : undefined
    if (retry == null) {
      this.#finished(job, info, () => job.reject(error))
      return
    }
    const ms = Math.min(LONGEST_TIMER_MS, Math.max(0, Math.trunc(Number(retry)) || 0))
    this.#tell('retry', `Retrying ${job.options.id} after ${ms} ms`, info)
    this.#executeIn(job, ms)
  }

  #finished(job: Job, info: object, settle: () => void): void {
    this.states.remove(job, this.host.trackDoneStatus)
    this.host._watch.ended(job)
    if (this.host.Events.hears('done')) this.#tell('done', info)
    // Where nobody waits for its place, the store hears of it with the next launch. Elsewhere a program that ends with
    // its job would keep the place.
    if (this.#settlesAtOnce) settle()
    this.free(job, this.#settlesAtOnce ? () => {} : settle)
  }

  drop(job: Job, error?: unknown): void {
    if (job.status === GONE) return
    this.states.remove(job, false)
    this.host._watch.ended(job)
    if (this.host.rejectOnDrop) job.reject(error ?? new BottleneckError('This job has been dropped by Bottleneck'))
    const { args, options, task, promise } = job
    if (this.host.Events.hears('dropped')) this.#tell('dropped', { args, options, task, promise })
    job.decided?.(true)
  }

  #tell(event: string, ...args: unknown[]): void {
    if (this.host.Events.hears(event)) void this.host.Events.trigger(event, ...args)
  }

  #debug(text: string): void {
    if (this.host.Events.listenerCount('debug') > 0) void this.host.Events.trigger('debug', text, {})
  }
}

function tooHeavy(weight: number, maxConcurrent: number | null): BottleneckError {
  return new BottleneckError(
    `Impossible to add a job having a weight of ${weight} to a limiter having a maxConcurrent setting of ` +
      `${maxConcurrent}`,
  )
}

function resultOf(call: () => unknown): Promise<unknown> {
  try {
    return Promise.resolve(call())
  } catch (error) {
    return Promise.reject(error)
  }
}
