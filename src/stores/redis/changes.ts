import { change } from '../../redis/scripts.js'
import type { Charge, ChargeReceipt } from '../store.js'
import type { ResetChannel } from './reset-channel.js'
import { groupByTag } from './slots.js'
import type { StoreScripts } from './store-scripts.js'
import { limitArguments, receiptArguments } from './wire-format.js'

/** What a change does: see lua/limiter/change.lua. */
type Verb = 'charge' | 'refund' | 'settle' | 'return' | 'reset' | 'block'

/** What a change is given beside its charges. */
interface ChangeFacts {
  /** Units; for a block its ms. */
  readonly units?: number
  /** Two words that only this change reads. Asked for when the script is sent. */
  readonly words?: (tag: number) => readonly [string, string]
  /** By `performance.now()`; default: a second from now. */
  readonly endsAt?: number
  /** Whether other processes are told: that units came back, or that the key was reset or blocked, which also ends its leases. Default: not at all. */
  readonly tells?: 'units' | 'key'
}

/**
 * Changes what keys may spend: one script call for each slot. The script also wakes the requests that wait for the units, and tells other
 * processes, unless that is gathered with other changes of the same moment.
 */
export class Changes {
  readonly #scripts: StoreScripts
  readonly #channel: ResetChannel
  readonly #waiters: string

  constructor(
    scripts: StoreScripts,
    channel: ResetChannel,
    /** Whether other processes are told. */
    readonly sharesResets: boolean,
  ) {
    this.#scripts = scripts
    this.#channel = channel
    this.#waiters = waitersChannel(scripts.keys.prefix)
  }

  /** Rejects with `StoreError`. */
  async run(verb: Verb, charges: readonly Charge[] | readonly ChargeReceipt[], facts: ChangeFacts = {}): Promise<void> {
    const groups = groupByTag<Charge>(charges, charge => this.#scripts.keys.tagOf(charge))
    await Promise.all(groups.map(({ charges, tag }) => this.#change(verb, charges, tag, facts)))
  }

  async #change(verb: Verb, charges: readonly Charge[], tag: number, facts: ChangeFacts): Promise<void> {
    const { units = 0, words, endsAt, tells } = facts
    const { keys } = this.#scripts
    const names = charges.map(({ key }) => key)
    const isTold = tells !== undefined && this.sharesResets
    const message = isTold ? this.#channel.message(names, tells) : ''
    const refused = await this.#scripts.run({
      script: change,
      does: verb,
      tag,
      keys: [
        ...charges.map(charge => keys.keyOf(charge, tag)),
        ...charges.map(charge => keys.noteOf(charge, tag)),
        ...charges.map(charge => keys.leasesOf(charge, tag)),
        ...charges.map(charge => keys.blockListOf(charge, tag)),
        ...keys.lineOf(charges, tag),
        keys.marksOf(charges, tag),
      ],
      args: nowMs => [
        verb,
        String(units),
        ...(words?.(tag) ?? ['', '']),
        this.#waiters,
        this.#channel.name,
        message,
        ...limitArguments(
          charges.map(({ limit }) => limit),
          () => nowMs,
        ),
        ...(verb === 'settle' || verb === 'return' ? receiptArguments(charges as readonly ChargeReceipt[]) : []),
      ],
      endsAt,
    })
    if (tells !== undefined) this.#channel.changed(names, tells)
    if (isTold && message === '') this.#channel.gather(names)
    if (typeof refused === 'string') this.#channel.warn(new Error(refused))
  }
}

/** What the names of the channels begin with on which processes hear that their waiters may fit. */
export function waitersChannel(prefix: string): string {
  return `${prefix}!turns:`
}
