import { HoldWatch, LevelMeters, type WaitEnd } from '../../limiter/core/meters.js'
import { type Observer, parseObserver } from '../../limiter/core/observer.js'
import type { Job } from './job.js'

/**
 * Reports the jobs of a limiter to its observer and the channels: a job waits until it is executed, and then holds its weight until it
 * has ended, retries included.
 */
export class JobWatch {
  readonly #holds: HoldWatch
  readonly #meters: LevelMeters
  /** Of each job that is not done: ends its wait; of those that execute: gives back its weight. */
  readonly #waiting = new Map<Job, WaitEnd>()
  readonly #executing = new Map<Job, (lost: boolean) => void>()

  private constructor(
    observer: Observer | undefined,
    name: string,
    readonly isOfGroup: boolean,
  ) {
    this.#holds = new HoldWatch(observer, 'bottleneck', name)
    this.#meters = new LevelMeters(observer, 'bottleneck', name)
  }

  /**
   * The limiters of a Group are one object to its observer, by the name of the Group: a name for each key could be
   * without end. Throws `PolicyError`.
   */
  static of(observer: Observer | JobWatch | null | undefined, name: string, isOfGroup = false): JobWatch {
    if (observer instanceof JobWatch) return observer
    return new JobWatch(parseObserver(observer ?? undefined, 'Bottleneck'), name, isOfGroup)
  }

  received(job: Job): void {
    const end = this.#holds.begin()
    if (end !== undefined) this.#waiting.set(job, end)
  }

  executes(job: Job): void {
    this.#waiting.get(job)?.('granted')
    this.#waiting.delete(job)
    const { weight } = job.options
    const end = weight > 0 ? this.#holds.hold(weight) : undefined
    if (end !== undefined) this.#executing.set(job, end)
  }

  /** It is done, or was dropped. */
  ended(job: Job): void {
    this.#waiting.get(job)?.('aborted')
    this.#waiting.delete(job)
    this.#executing.get(job)?.(false)
    this.#executing.delete(job)
  }

  /** What is left of the reservoir; null: there is none. */
  left(reservoir: number | null): void {
    if (reservoir === null || this.isOfGroup) return
    for (const meter of this.#meters.heard) meter.set({ reservoir })
  }
}
