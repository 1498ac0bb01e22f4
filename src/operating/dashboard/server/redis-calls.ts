import { Deadline } from '../../../limiter/core/clock.js'

/** Whether somebody still waits for an answer. */
export type IsViewerThere = () => boolean

/** A page does not wait longer for one answer: what does not answer is shown as such. */
const PAGE_DEADLINE = new Deadline(1500)
/** A call that is not answered for so long is made again. */
const CALL_DEADLINE = new Deadline(5000)

/** All who wanted an answer have gone. */
export class ViewerGone extends Error {}

interface Asked<T> {
  readonly answer: Promise<T>
  readonly viewers: Set<IsViewerThere>
  freshUntil: number
}

const always: IsViewerThere = () => true

/**
 * An answer of Redis for all viewers: asked for once at a time, and again when it is older than `freshMs`. Whoever
 * waits for a call that has not been answered within 1.5 s is rejected, at once if the call is older than that;
 * meanwhile it is not made a second time.
 */
export class SharedAnswer<T> {
  #asked: Asked<T> | undefined

  constructor(
    readonly ask: (isViewerThere: IsViewerThere) => Promise<T>,
    readonly freshMs: number | (() => number),
  ) {}

  get(isViewerThere: IsViewerThere = always): Promise<T> {
    const known = this.#asked
    if (known === undefined || performance.now() >= known.freshUntil) return this.#ask(isViewerThere)
    known.viewers.add(isViewerThere)
    return known.answer.catch(error => {
      // The others have gone just before this one came.
      if (error instanceof ViewerGone && isViewerThere()) return this.#ask(isViewerThere)
      throw error
    })
  }

  /** Something was changed: the next answer is a new one, also if one is on its way. */
  forget(): void {
    this.#asked = undefined
  }

  #ask(isViewerThere: IsViewerThere): Promise<T> {
    const viewers = new Set([isViewerThere])
    const call = CALL_DEADLINE.hold(this.ask(() => [...viewers].some(isViewerThere => isViewerThere())))
    const asked: Asked<T> = { answer: PAGE_DEADLINE.hold(call), viewers, freshUntil: Number.POSITIVE_INFINITY }
    this.#asked = asked
    call.then(
      () => {
        const freshMs = typeof this.freshMs === 'number' ? this.freshMs : this.freshMs()
        if (this.#asked === asked) this.#asked = { answer: call, viewers, freshUntil: performance.now() + freshMs }
        viewers.clear()
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

  get(name: string, ask: (isViewerThere: IsViewerThere) => Promise<T>, isViewerThere?: IsViewerThere): Promise<T> {
    const answer = this.#answers.get(name) ?? new SharedAnswer(ask, this.freshMs)
    this.#answers.delete(name)
    this.#answers.set(name, answer)
    const [oldest] = this.#answers.keys()
    if (this.#answers.size > this.most && oldest !== undefined) this.#answers.delete(oldest)
    return answer.get(isViewerThere)
  }

  forget(): void {
    this.#answers.clear()
  }
}
