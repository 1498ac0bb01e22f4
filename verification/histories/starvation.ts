import { openSync, readSync } from 'node:fs'

const EVERY_MS = 2
/** Timers tell whole milliseconds, so a beat may come a little late on an idle machine. */
const USUAL_MS = 5
const KEPT = 4096

/**
 * For how long the event loop was late because its thread was kept from running: on a busy machine nothing that it does
 * can be in time then. A beat is due every 2 ms; of the time by which one comes late, that in which the thread did not
 * itself compute. What it computed is no excuse.
 */
export class Starvation {
  readonly #at = new Float64Array(KEPT)
  /** The time until then during which it could not run. */
  readonly #starved = new Float64Array(KEPT)
  readonly #ran = computingMs()
  readonly #timer: ReturnType<typeof setInterval>
  #beats = 0
  #ranBefore = 0

  constructor() {
    this.#beat()
    this.#timer = setInterval(() => this.#beat(), EVERY_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** The ms since `from` (of performance.now()), as far back as beats are kept. */
  since(from: number): number {
    this.#beat()
    const last = this.#beats - 1
    const first = Math.max(0, last - KEPT + 1)
    let i = last
    while (i > first && this.#at[i % KEPT] > from) i--
    const next = Math.min(i + 1, last) % KEPT
    // The beat around `from`: it counts as far as it was after.
    const around = Math.min(this.#starved[next] - this.#starved[i % KEPT], Math.max(0, this.#at[next] - from))
    return this.#starved[last % KEPT] - this.#starved[next] + around
  }

  #beat(): void {
    const now = performance.now()
    const ran = this.#ran()
    const before = (this.#beats + KEPT - 1) % KEPT
    const late = this.#beats === 0 ? 0 : now - this.#at[before] - EVERY_MS - (ran - this.#ranBefore)
    this.#ranBefore = ran
    this.#at[this.#beats % KEPT] = now
    this.#starved[this.#beats % KEPT] = this.#starved[before] + (late > USUAL_MS - EVERY_MS ? late : 0)
    this.#beats++
  }
}

/**
 * Reads how long this thread has computed so far: Linux tells it of each thread; elsewhere it is that of the whole
 * process.
 */
function computingMs(): () => number {
  try {
    const file = openSync('/proc/thread-self/schedstat', 'r')
    const text = Buffer.alloc(96)
    return () => Number(text.toString('latin1', 0, readSync(file, text, 0, 96, 0)).split(' ')[0]) / 1e6
  } catch {
    return () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1000
    }
  }
}
