import { StoreError, TimeoutError } from '../core/errors.js'
import { type QueuedTurn, TurnQueue } from '../limiter/turn-queue.js'
import { patienceOfAsking } from '../limiter/turns.js'
import type { RedisClient } from '../redis/client.js'
import { TurnNews } from '../redis/turn-news.js'
import { Alarm } from '../waiting/alarm.js'
import { type Patience, Wait } from '../waiting/wait.js'
import {
  AGAIN,
  type Booked,
  type Booking,
  NEVER,
  type RateQuestions,
  type Standing,
  tooMany,
  UNKNOWN,
  UNSET,
  unset,
  wordFor,
} from './answer.js'

/** News is some ms old when it is heard: a turn that was promised in time is not lost to that. */
const NEWS_AGE_MS = 50
/** How long news may be lost without notice. */
const CHECK_EVERY_MS = 5000

interface Place extends QueuedTurn, Booking {
  /** Of its last booking: news of one before is heard by nobody. */
  id: string
  readonly wait: Wait<void>
  epoch: number
  /** Changes with every news of it and every booking: an answer to an older question is not believed. */
  version: number
  /** What news said before the booking was answered. */
  early: { readonly waitMs: number; readonly at: number } | undefined
  /** Its turn is known. */
  walking: boolean
}

/**
 * Those of this process who wait for permits of one shared rate. Each asks once and is told its turn; news of the server moves it.
 * Where news may have been missed, the server is asked once for all of them.
 */
export class RateLine {
  readonly #news: TurnNews
  readonly #places = new Set<Place>()
  readonly #procession = new TurnQueue()
  /** Those whose turn has come, if what was heard is still true: in their order, until the server has been asked. */
  readonly #doubtful = new Set<Place>()
  readonly #check = new Alarm(() => {
    this.#checks = false
    this.#look()
  })
  #checks = false
  /** How often news began to be heard, and up to which time of these the turns are known to be right. */
  #lives = 0
  #sure = -1
  #looks = false
  #looksAgain = false

  constructor(
    client: RedisClient,
    channel: string,
    readonly questions: RateQuestions,
  ) {
    this.#news = new TurnNews(client, questions.subject, channel, () => {
      this.#lives++
      this.#look()
    })
  }

  /**
   * Waits for the turn; the signal is not aborted yet. Rejects with `TimeoutError` (at once if the turn would come too late), the
   * signal's reason, `CostError` for more than the rate, `NotInitializedError`, `StoreError`.
   */
  wait(permits: number, patience: Patience): Promise<void> {
    const wait = new Wait<void>(
      patienceOfAsking(patience),
      () => {
        this.#leave(place)
        return new TimeoutError(`${this.questions.subject}: no permit was free within ${patience.timeoutMs} ms`)
      },
      () => this.#giveBack(place),
    )
    const place: Place = {
      id: '',
      permits,
      wait,
      epoch: 0,
      version: 0,
      early: undefined,
      walking: false,
      turnAt: Number.POSITIVE_INFINITY,
      arrive: () => this.#arrive(place),
    }
    place.id = this.#news.open(waitMs => this.#hear(place, waitMs))
    this.#places.add(place)
    void this.#book(place, patience.timeoutMs)
    return wait.promise
  }

  /** Rejects everyone who waits, and gives their turns back. */
  async close(): Promise<void> {
    const cancelled = [...this.#places].map(place => {
      place.wait.reject(new StoreError(`${this.questions.subject} was closed while this waited`))
      return this.#giveBack(place)
    })
    await Promise.all(cancelled)
  }

  async #book(place: Place, timeoutMs: number): Promise<void> {
    place.version++
    const { id, permits, wait } = place
    const { subject } = this.questions
    const maxWaitMs = Math.min(timeoutMs, Math.ceil(wait.leftMs))
    const heardAll = this.#hearsAll
    const lives = this.#lives
    const late = ({ waitMs, epoch }: Booked) => {
      if (permits > 0 && waitMs >= 0 && waitMs <= maxWaitMs) void this.questions.cancel({ id, permits, epoch })
    }
    try {
      const booked = await this.questions.book(id, permits, maxWaitMs, late)
      const { waitMs, rate, epoch } = booked
      if (wait.over) {
        late(booked)
        return
      }
      if (waitMs === NEVER) wait.reject(tooMany(subject, permits, rate))
      else if (waitMs === UNSET) wait.reject(unset(subject))
      else if (waitMs > maxWaitMs) {
        wait.reject(new TimeoutError(`${subject}: the turn would come in ${waitMs} ms, after the timeout`))
      } else if (waitMs === 0 && (permits === 0 || (this.#procession.empty && this.#doubtful.size === 0))) {
        // Nothing is taken out of turn: in the procession it would draw up those who wait.
        wait.resolve()
      } else {
        place.epoch = epoch
        place.walking = true
        place.turnAt = performance.now() + waitMs
        // From here on only the procession, news or the signal end it: a turn that was promised in time is not lost to a late timer.
        wait.resolveAt(Number.POSITIVE_INFINITY, undefined)
        this.#procession.join(place)
        const { early } = place
        if (early) this.#moved(place, Math.max(0, early.waitMs - (performance.now() - early.at)), early.waitMs)
        // What was said before it was heard may have been about this turn.
        else if (waitMs > 0 && !(heardAll && lives === this.#lives)) this.#look()
        this.#checkSoon()
        return
      }
    } catch (error) {
      wait.reject(error)
    }
    this.#leave(place)
  }

  get #hearsAll(): boolean {
    return this.#news.missesNothing && this.#sure === this.#lives
  }

  #hear(place: Place, waitMs: number): void {
    place.version++
    if (place.walking) this.#moved(place, waitMs)
    else place.early = { waitMs, at: performance.now() }
  }

  #moved(place: Place, waitMs: number, word = waitMs): void {
    const { wait, permits } = place
    if (wait.over || !place.walking || word === UNKNOWN) return
    place.version++
    if (word >= 0) {
      if (waitMs <= wait.leftMs + NEWS_AGE_MS) {
        if (!this.#doubtful.has(place)) this.#procession.move(place, waitMs)
        // With wait 0 it goes when the server has answered for all of them, in their order.
        else if (waitMs > 0) this.#putOff(place, waitMs)
        return
      }
      wait.reject(
        new TimeoutError(`${this.questions.subject}: the rate fell, and the turn would come after the timeout`),
      )
      this.#giveBack(place)
      return
    }
    this.#procession.leave(place)
    this.#doubtful.delete(place)
    place.walking = false
    place.early = undefined
    if (word === AGAIN) {
      // Under a new id: what was said of the old booking may be heard only now, as where a look told it first.
      const { id } = place
      place.id = this.#news.open(waitMs => this.#hear(place, waitMs))
      this.#news.close(id)
      void this.#book(place, wait.leftMs)
      return
    }
    wait.reject(word === NEVER ? tooMany(this.questions.subject, permits) : unset(this.questions.subject))
    this.#leave(place)
  }

  /** Its turn has not come after all: neither has that of those behind it. */
  #putOff(place: Place, waitMs: number): void {
    place.turnAt = performance.now() + waitMs
    const all = [...this.#doubtful]
    for (const each of all.slice(all.indexOf(place))) {
      this.#doubtful.delete(each)
      this.#procession.rejoin(each)
    }
  }

  /** Its turn has come, as far as is known here: where news may have been missed, the server is asked, and nobody overtakes. */
  #arrive(place: Place): void {
    if (this.#hearsAll && this.#doubtful.size === 0) {
      this.#grant(place)
      return
    }
    this.#doubtful.add(place)
    if (this.#doubtful.size === 1) void this.#ask()
  }

  async #ask(): Promise<void> {
    while (this.#doubtful.size > 0) {
      const places = [...this.#doubtful]
      const versions = places.map(({ version }) => version)
      // What was promised stands while nobody can be asked.
      const answer = this.#hearsAll
        ? undefined
        : await this.questions.look(places.map(({ id }) => id)).then(
            standing => ({ standing }),
            () => undefined,
          )
      for (const [i, place] of places.entries()) {
        if (!this.#doubtful.has(place)) continue
        // It has been heard of meanwhile: it is asked for again, and nobody overtakes it.
        if (place.version !== versions[i]) break
        const word = answer === undefined ? UNKNOWN : this.#wordFor(place, answer.standing, i)
        if (word === UNKNOWN || word === 0) this.#grant(place)
        else this.#moved(place, word)
      }
    }
  }

  #grant(place: Place): void {
    place.wait.resolve()
    this.#procession.leave(place)
    this.#leave(place)
  }

  /** Asks for all whose turns are known. Those who come while it asks are asked for next. */
  #look(): void {
    this.#looksAgain = this.#looks
    if (this.#looks) return
    this.#looks = true
    // Answers that were read together are asked about together.
    setImmediate(() => void this.#lookNow())
  }

  async #lookNow(): Promise<void> {
    const lives = this.#lives
    const places = [...this.#places].filter(({ walking }) => walking)
    const versions = places.map(({ version }) => version)
    try {
      const standing = places.length > 0 ? await this.questions.look(places.map(({ id }) => id)) : undefined
      this.#sure = lives
      for (const [i, place] of places.entries()) {
        if (place.version === versions[i]) this.#moved(place, this.#wordFor(place, standing, i))
      }
    } catch {
      // The turns stay as they were last known.
    }
    this.#looks = false
    if (this.#looksAgain) this.#look()
    this.#checkSoon()
  }

  #wordFor(place: Place, standing: Standing | undefined, i: number): number {
    // Who is still in the line was not sent away with those who were before.
    if (standing && standing.waits[i] >= 0) place.epoch = standing.epoch
    return wordFor(place, standing, i)
  }

  #checkSoon(): void {
    if (this.#checks || this.#places.size === 0) return
    this.#checks = true
    this.#check.set(performance.now() + CHECK_EVERY_MS)
  }

  #giveBack(place: Place): Promise<unknown> | undefined {
    this.#procession.leave(place)
    this.#leave(place)
    // Not answered yet: what the answer takes is given back then.
    return place.walking ? this.questions.cancel(place) : undefined
  }

  #leave(place: Place): void {
    this.#places.delete(place)
    this.#doubtful.delete(place)
    this.#news.close(place.id)
    if (this.#places.size > 0) return
    this.#check.clear()
    this.#checks = false
  }
}
