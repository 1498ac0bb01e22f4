import { DONE, GONE, type Job, type JobStatus, RECEIVED, STATUSES } from './job.js'
import { BottleneckError } from './options.js'

export interface StatusCounts {
  RECEIVED: number
  QUEUED: number
  RUNNING: number
  EXECUTING: number
  /** With `trackDoneStatus`. */
  DONE?: number
}

/** What is remembered of all jobs that are done. */
const DONE_JOB = { status: DONE }

/** The jobs of a limiter by their ids, and how many there are in each state. */
export class JobStates {
  readonly #jobs = new Map<string, Job | typeof DONE_JOB>()
  readonly #counts = STATUSES.map(() => 0)
  #emptied: { readonly left: number; readonly resolve: () => void } | undefined

  /** False if the id is taken. */
  add(job: Job): boolean {
    const id = String(job.options.id)
    if (this.#jobs.has(id)) return false
    this.#jobs.set(id, job)
    this.#counts[RECEIVED]++
    return true
  }

  move(job: Job, status: number): void {
    this.#counts[job.status]--
    job.status = status
    this.#counts[status]++
  }

  /** It is done, or dropped. `remember`: its id stays taken. */
  remove(job: Job, remember: boolean): void {
    this.#counts[job.status]--
    job.status = GONE
    const id = String(job.options.id)
    if (remember) {
      this.#jobs.set(id, DONE_JOB)
      this.#counts[DONE]++
    } else this.#jobs.delete(id)
    this.#checkEmptied()
  }

  /** The number of jobs in one state. */
  in(status: number): number {
    return this.#counts[status]
  }

  /** The number of jobs that are not done. */
  get open(): number {
    return this.#counts.slice(0, DONE).reduce((sum, count) => sum + count, 0)
  }

  /** Those that are not done. */
  *[Symbol.iterator](): Generator<Job> {
    for (const job of this.#jobs.values()) if (job !== DONE_JOB) yield job as Job
  }

  /** Calls back when only so many are not done. */
  whenLeft(left: number, resolve: () => void): void {
    this.#emptied = { left, resolve }
    this.#checkEmptied()
  }

  #checkEmptied(): void {
    if (this.#emptied?.left === this.open) this.#emptied.resolve()
  }

  statusOf(id: string | number): JobStatus | null {
    return STATUSES[this.#jobs.get(String(id))?.status ?? GONE] ?? null
  }

  ids(status: string | null | undefined, statuses: readonly string[]): string[] {
    const ids = [...this.#jobs.keys()]
    if (status == null) return ids
    const wanted = statuses.indexOf(status)
    if (wanted < 0) throw new BottleneckError(`status must be one of ${statuses.join(', ')}`)
    return ids.filter(id => this.#jobs.get(id)?.status === wanted)
  }

  counts(statuses: readonly JobStatus[]): StatusCounts {
    return Object.fromEntries(statuses.map((status, index) => [status, this.#counts[index]])) as unknown as StatusCounts
  }
}
