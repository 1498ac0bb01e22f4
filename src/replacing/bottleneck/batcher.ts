import { Emitting } from './events.js'

export interface BatcherSettings {
  /** Most ms for which an item waits. Default null: until the batch is full. */
  readonly maxTime?: number | null
  /** Most items of a batch. Default null: no bound. */
  readonly maxSize?: number | null
  /** Makes the promises of `add`. */
  readonly Promise?: unknown
}

interface BatcherEvents {
  // biome-ignore lint/suspicious/noExplicitAny: anything may be thrown.
  error: [error: any]
  // biome-ignore lint/suspicious/noExplicitAny: as the items were added.
  batch: [batch: any[]]
}

/** Collects items, and passes them on together as the event `batch`. */
export class Batcher extends Emitting<BatcherEvents> {
  readonly maxTime: number | null
  readonly maxSize: number | null
  readonly Promise: PromiseConstructor
  #items: unknown[] = []
  #flushed: Promise<void> | undefined
  #flush: () => void = () => {}
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(options: BatcherSettings = {}) {
    super()
    this.maxTime = options.maxTime ?? null
    this.maxSize = options.maxSize ?? null
    this.Promise = (options.Promise as PromiseConstructor | undefined) ?? Promise
  }

  /** Resolves when the item was passed on. */
  add(item: unknown): Promise<void> {
    this.#flushed ??= this.#open()
    const flushed = this.#flushed
    this.#items.push(item)
    if (this.#items.length === this.maxSize) this.#flush()
    return flushed
  }

  #open(): Promise<void> {
    return new this.Promise<void>(resolve => {
      this.#flush = () => {
        clearTimeout(this.#timer)
        const items = this.#items
        this.#items = []
        this.#flushed = undefined
        resolve()
        void this.Events.trigger('batch', items)
      }
      if (this.maxTime !== null) this.#timer = setTimeout(() => this.#flush(), this.maxTime)
    })
  }
}
