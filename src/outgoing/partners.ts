import { getOrMake } from '../core/get-or-make.js'
import type { Partner } from './partner.js'

/** How often partners that have nothing to wait for are forgotten. */
const FORGET_EVERY_MS = 10_000

/** The partners that are being called, or that have something to wait for. */
export class Partners {
  readonly #partners = new Map<string, Partner>()
  readonly #open: (name: string) => Partner
  #timer: ReturnType<typeof setInterval> | undefined

  /** `open` makes a partner that is not known. */
  constructor(open: (name: string) => Partner) {
    this.#open = open
  }

  get size(): number {
    return this.#partners.size
  }

  of(name: string): Partner {
    const partner = getOrMake(this.#partners, name, () => this.#open(name))
    this.#timer ??= setInterval(() => this.#forget(), FORGET_EVERY_MS).unref()
    return partner
  }

  #forget(): void {
    for (const [name, partner] of this.#partners) {
      if (!partner.idle) continue
      this.#partners.delete(name)
      void partner.close()
    }
    if (this.#partners.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
