import { setTimeout as pause } from 'node:timers/promises'

const IN_FLIGHT = 200
const TICK_MS = 20

/** Keeps 200 questions in flight: whoever has an answer asks again at the next tick. */
export class Load {
  readonly #timer: ReturnType<typeof setInterval>
  #idle = IN_FLIGHT

  /** `ask` never rejects. `afterTick` is called when all have asked. */
  constructor(ask: () => Promise<void>, afterTick: () => void = () => {}) {
    this.#timer = setInterval(() => {
      for (; this.#idle > 0; this.#idle--) void ask().then(() => this.#idle++)
      afterTick()
    }, TICK_MS)
  }

  /** Resolves when all have their answers. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    while (this.#idle < IN_FLIGHT) await pause(TICK_MS)
  }
}
