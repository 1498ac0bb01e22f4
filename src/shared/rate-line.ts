import { CostError, NotInitializedError, StoreError, TimeoutError } from '../errors.js'
import { Procession, type Walker } from '../procession.js'
import type { RedisClient } from '../redis/client.js'
import { TurnNews } from '../redis/turn-news.js'
import { Alarm } from '../waiting/alarm.js'
import { type Patience, Wait } from '../waiting/wait.js'

/** Words of the scripts in the place of a wait. */
const NEVER = -1
const UNSET = -2
const AGAIN = -3
const PASSED = -4

/** News is some ms old when it is heard: a turn that was promised in time is not lost to that. */
const NEWS_AGE_MS = 50
/** How long news may be lost without notice. */
const CHECK_EVERY_MS = 5000

export interface RateQuestions {
  /** What errors call the limiter, like `SharedRateLimiter "mail"`. */
  readonly subject: string
  /** Takes or books: the wait in ms or a word, and the rate. `late` is told of an answer that nobody waits for any more. */
  book(id: string, permits: number, maxWaitMs: number, late: (answer: unknown) => void): Promise<readonly number[]>
  /** Gives a booking back. */
  cancel(id: string, permits: number): Promise<unknown>
  /** The waits of those who wait, in ms, or words. */
  look(ids: readonly string[]): Promise<readonly number[]>
}

interface Place extends Walker {
  readonly id: string
  readonly permits: number
  readonly wait: Wait<void>
  /** What news said before the booking was answered. */
  early: number | undefined
  walking: boolean
}

/**
 * Those of this process who wait for permits of one shared rate. Each asks once and is told its turn; news of the server moves it.
 * Where news may have been missed, the server is asked once for all of them.
 */
export class RateLine {
  readonly #news: TurnNews
  readonly #places = new Map<string, Place>()
  readonly #procession = new Procession()
  readonly #check = new Alarm(() => this.#look())

  constructor(
    client: RedisClient,
    channel: string,
    readonly questions: RateQuestions,
  ) {
    this.#news = new TurnNews(client, questions.subject, channel, () => this.#look())
  }

  /**
   * Waits for the turn. Rejects with `TimeoutError` (at once if the turn would come too late), the signal's reason, `CostError` for
   * more than the rate, `NotInitializedError`, `StoreError`.
   */
  wait(permits: number, patience: Patience): Promise<void> {
    const id = this.#news.open(waitMs => this.#moved(place, waitMs))
    const wait = new Wait<void>(
      // Whoever is not ready to wait still waits for the answer.
      patience.timeoutMs === 0 ? { ...patience, timeoutMs: Number.POSITIVE_INFINITY } : patience,
      () => new TimeoutError(`${this.questions.subject}: no permit was free within ${patience.timeoutMs} ms`),
      () => this.#giveBack(place),
    )
    const place: Place = {
      id,
      permits,
      wait,
      early: undefined,
      walking: false,
      turnAt: Number.POSITIVE_INFINITY,
      arrive: () => this.#arrive(place),
    }
    if (wait.over) {
      this.#news.close(id)
      return wait.promise
    }
    this.#places.set(id, place)
    void this.#book(place, patience)
    return wait.promise
  }

  /** Rejects everyone who waits, and gives their turns back. */
  async close(): Promise<void> {
    const cancelled = [...this.#places.values()].map(place => {
      place.wait.reject(new StoreError(`${this.questions.subject} was closed while this waited`))
      return this.#giveBack(place)
    })
    await Promise.all(cancelled)
  }

  async #book(place: Place, patience: Patience): Promise<void> {
    const { id, permits, wait } = place
    const maxWaitMs = Math.min(patience.timeoutMs, Math.ceil(wait.leftMs))
    const late = (answer: unknown) => {
      if (taken(answer, maxWaitMs)) this.#cancel(place)
    }
    try {
      const answer = await this.questions.book(id, permits, maxWaitMs, late)
      if (wait.over) {
        late(answer)
        return
      }
      const [waitMs, rate] = answer
      if (waitMs === NEVER) wait.reject(tooMany(this.questions.subject, permits, rate))
      else if (waitMs === UNSET) wait.reject(unset(this.questions.subject))
      else if (waitMs > maxWaitMs) {
        wait.reject(
          new TimeoutError(`${this.questions.subject}: the turn would come in ${waitMs} ms, after the timeout`),
        )
      } else if (waitMs === 0) wait.resolve()
      else {
        place.walking = true
        place.turnAt = performance.now() + waitMs
        // From here on only the procession, news or the signal end it: a turn that was promised in time is not lost to a late timer.
        wait.resolveAt(Number.POSITIVE_INFINITY, undefined)
        this.#procession.join(place)
        if (waitMs > CHECK_EVERY_MS) this.#checkSoon()
        if (place.early !== undefined) this.#moved(place, place.early)
        return
      }
    } catch (error) {
      wait.reject(error)
    }
    this.#leave(place)
  }

  #moved(place: Place, waitMs: number): void {
    const { wait, permits } = place
    if (!place.walking) {
      place.early = waitMs
      return
    }
    if (wait.over || waitMs === PASSED) return
    if (waitMs >= 0) {
      if (waitMs > wait.leftMs + NEWS_AGE_MS) {
        wait.reject(
          new TimeoutError(`${this.questions.subject}: the rate fell, and the turn would come after the timeout`),
        )
        this.#giveBack(place)
      } else this.#procession.move(place, waitMs)
      return
    }
    this.#procession.leave(place)
    place.walking = false
    place.early = undefined
    if (waitMs === AGAIN) {
      void this.#book(place, { timeoutMs: wait.leftMs, signal: undefined })
      return
    }
    wait.reject(waitMs === NEVER ? tooMany(this.questions.subject, permits) : unset(this.questions.subject))
    this.#leave(place)
  }

  /** Its turn has come, as far as is known here: where news may have been missed, the server is asked. */
  async #arrive(place: Place): Promise<void> {
    if (!this.#news.missesNothing) {
      const [waitMs] = await this.questions.look([place.id]).catch(() => [PASSED])
      if (place.wait.over) return
      if (waitMs > 0) {
        place.turnAt = performance.now() + waitMs
        this.#procession.join(place)
        return
      }
      if (waitMs === UNSET) {
        this.#moved(place, waitMs)
        return
      }
    }
    place.wait.resolve()
    this.#leave(place)
  }

  #look(): void {
    const places = [...this.#places.values()].filter(({ walking }) => walking)
    if (places.length === 0) return
    this.questions.look(places.map(({ id }) => id)).then(
      waits => {
        for (const [i, place] of places.entries()) this.#moved(place, waits[i])
      },
      // The turns stay as they were last known.
      () => {},
    )
    this.#checkSoon()
  }

  #checkSoon(): void {
    if (this.#places.size > 0) this.#check.set(performance.now() + CHECK_EVERY_MS)
  }

  #giveBack(place: Place): Promise<unknown> | undefined {
    this.#procession.leave(place)
    this.#leave(place)
    // Not answered yet: what the answer takes is given back then.
    return place.walking ? this.#cancel(place) : undefined
  }

  /** Nobody can be told of a failure any more. The turn then passes unused, once. */
  #cancel({ id, permits }: Place): Promise<unknown> {
    return this.questions.cancel(id, permits).catch(() => {})
  }

  #leave({ id }: Place): void {
    this.#places.delete(id)
    this.#news.close(id)
    if (this.#places.size === 0) this.#check.clear()
  }
}

function taken(answer: unknown, maxWaitMs: number): boolean {
  const [waitMs] = answer as readonly number[]
  return waitMs >= 0 && waitMs <= maxWaitMs
}

function tooMany(subject: string, permits: number, rate?: number): CostError {
  const most = rate === undefined ? 'the rate' : `the rate, ${rate}`
  return new CostError(`${subject}: permits ${permits}: more than ${most}, waiting would not help`)
}

export function unset(subject: string): NotInitializedError {
  return new NotInitializedError(`${subject}: no rate is set; set one with trySetRate({ rate: 10, interval: '1s' })`)
}
