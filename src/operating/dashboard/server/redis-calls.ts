import { Deadline } from '../../../limiter/core/clock.js'

/** Whether somebody still waits for an answer. */
export type IsWanted = () => boolean

/** A page does not wait longer for one answer: what does not answer is shown as such. */
const PAGE_DEADLINE = new Deadline(1500)
/** A call that is not answered for so long is made again. */
const CALL_DEADLINE = new Deadline(5000)

/** All who wanted an answer have gone. */
export class Unwanted extends Error {}

interface Asked<T> {
  readonly answer: Promise<T>
  readonly wanters: Set<IsWanted>
  freshUntil: number
}

const always: IsWanted = () => true

/**
 * An answer of Redis for all viewers: asked for once at a time, and again when it is older than `freshMs`. Whoever
 * waits for a call that has not been answered within 1.5 s is rejected, at once if the call is older than that;
 * meanwhile it is not made a second time.
 */
export class SharedAnswer<T> {
  #asked: Asked<T> | undefined

  constructor(
    readonly ask: (isWanted: IsWanted) => Promise<T>,
    readonly freshMs: number | (() => number),
  ) {}

  get(isWanted: IsWanted = always): Promise<T> {
    const known = this.#asked
    if (known === undefined || performance.now() >= known.freshUntil) return this.#ask(isWanted)
    known.wanters.add(isWanted)
    return known.answer.catch(error => {
      // The others have gone just before this one came.
      if (error instanceof Unwanted && isWanted()) return this.#ask(isWanted)
      throw error
    })
  }

  /** Something was changed: the next answer is a new one, also if one is on its way. */
  forget(): void {
    this.#asked = undefined
  }

  #ask(isWanted: IsWanted): Promise<T> {
    const wanters = new Set([isWanted])
    const call = CALL_DEADLINE.hold(this.ask(() => [...wanters].some(isWanted => isWanted())))
    const asked: Asked<T> = { answer: PAGE_DEADLINE.hold(call), wanters, freshUntil: Number.POSITIVE_INFINITY }
    this.#asked = asked
    call.then(
      () => {
        const freshMs = typeof this.freshMs === 'number' ? this.freshMs : this.freshMs()
        if (this.#asked === asked) this.#asked = { answer: call, wanters, freshUntil: performance.now() + freshMs }
        wanters.clear()
      },
      () => {
        asked.freshUntil = 0
      },
    )
    return asked.answer
  }
}

/** Shared answers by name; of those that were not asked for longest, the first are forgotten. */
export class SharedAnswers<T> {
  readonly #answers = new Map<string, SharedAnswer<T>>()

  constructor(
    readonly most: number,
    readonly freshMs: number | (() => number),
  ) {}

  get(name: string, ask: (isWanted: IsWanted) => Promise<T>, isWanted?: IsWanted): Promise<T> {
    const answer = this.#answers.get(name) ?? new SharedAnswer(ask, this.freshMs)
    this.#answers.delete(name)
    this.#answers.set(name, answer)
    const [oldest] = this.#answers.keys()
    if (this.#answers.size > this.most && oldest !== undefined) this.#answers.delete(oldest)
    return answer.get(isWanted)
  }

  forget(): void {
    this.#answers.clear()
  }
}
