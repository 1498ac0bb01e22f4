import type { LeaseTerms } from '../../src/leases/terms.js'
import { measure, type State } from '../../src/limiter/algorithms/registry.js'
import type { Charge } from '../../src/limiter/store.js'
import { KeyRow, RowDraft } from '../../src/sql/key-row.js'
import { SqlSeller } from '../../src/sql/lease-seller.js'
import type { Message } from './simulated-seller.js'

type Apply<T> = (drafts: readonly RowDraft[], nowMs: number) => T

/**
 * One row of a table, behind a network whose messages arrive when the schedule says so: a change reads the row, then
 * writes it if its version is the same, else it begins again. The seller, the arithmetic and the text of the row are
 * real.
 */
export class SimulatedTable {
  /** When the windows of a fixed window began. */
  readonly starts: number[] = []
  readonly messages: Message[] = []
  readonly seller: SqlSeller
  #version = 0
  #text = ''

  constructor(
    readonly terms: LeaseTerms,
    readonly now: () => number,
  ) {
    this.seller = new SqlSeller(this, terms, undefined)
  }

  run<T>(
    charges: readonly Charge[],
    apply: Apply<T>,
    _: object,
    done: (value: T) => void,
    failed: (error: unknown) => void,
  ): void {
    void this.#change(charges, apply).then(done, failed)
  }

  async change<T>(charges: readonly Charge[], apply: Apply<T>): Promise<{ readonly value: T }> {
    return { value: await this.#change(charges, apply) }
  }

  giveBack(): Promise<void> {
    return Promise.resolve()
  }

  /** Spends 1 for now if it fits: a decision of the store itself. */
  spend(): boolean {
    const draft = new RowDraft('k', KeyRow.decode(String(this.#version), this.#text))
    const { limits } = this.terms
    const measured = limits.map(limit => measure(limit, draft.of(limit)?.state, this.now(), 1))
    if (measured.some(({ verdict }) => !verdict.allowed)) return false
    for (const [i, limit] of limits.entries()) {
      const kept = draft.change(limit)
      kept.state = measured[i].next as State
      kept.until = Math.max(kept.until, this.now() + measured[i].verdict.resetAfterMs)
    }
    return this.#write(draft, this.now())
  }

  async #change<T>(charges: readonly Charge[], apply: Apply<T>): Promise<T> {
    for (;;) {
      const { row, at } = await this.#send(() => ({
        row: KeyRow.decode(String(this.#version), this.#text),
        at: this.now(),
      }))
      const draft = new RowDraft('k', row)
      const value = apply(
        charges.map(() => draft),
        at,
      )
      if (!draft.isDirty || (await this.#send(() => this.#write(draft, at)))) return value
    }
  }

  #write(draft: RowDraft, at: number): boolean {
    if (draft.base.version !== String(this.#version)) return false
    this.#text = draft.written('1', at).text
    this.#version++
    for (const limit of this.terms.limits) {
      const { startedAt } = (draft.of(limit)?.state ?? {}) as { startedAt?: number }
      if (limit.algorithm === 'fixed-window' && startedAt !== undefined && startedAt !== this.starts.at(-1)) {
        this.starts.push(startedAt)
      }
    }
    return true
  }

  #send<T>(act: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      let reply: { value: T } | undefined
      this.messages.push({
        arrive: () => {
          const value = act()
          reply ??= { value }
        },
        answer: () => {
          if (reply !== undefined) resolve(reply.value)
        },
        fail: () => reject(new Error('the connection was lost')),
      })
    })
  }
}
