import type { BlockRule, Denials, Strikes } from '../../limiter/block-rule.js'
import { allCarriedOut } from '../../limiter/carried-out.js'
import type { Change } from '../../limiter/port.js'
import type { Charge, ChargeReceipt } from '../../limiter/store.js'
import { change } from '../scripts.js'
import { groupByTag } from './slots.js'
import type { StoreScripts } from './store-scripts.js'
import { limitArguments, receiptArguments, standingOf, strikeArguments, strikesOf } from './wire-format.js'

/** What a change does: see lua/limiter/change.lua. */
type Verb = 'charge' | 'refund' | 'settle' | 'return' | 'reset' | 'block' | 'strike'

/** What a change is given beside its charges. */
interface ChangeFacts {
  /** Units; for a block its ms; for a strike its denials. */
  readonly units?: number
  /** Two words that only this change reads. Asked for when the script is sent. */
  readonly words?: (tag: number) => readonly [string, string]
  /** By `performance.now()`; default: a second from now. */
  readonly endsAt?: number
  /** See `Change.answered`. */
  readonly answered?: Change['answered']
  /** Only of a strike. */
  readonly strike?: { readonly ageMs: number; readonly rule: BlockRule }
}

/**
 * Changes what keys may spend: one script call for each slot. The script also wakes the requests that wait for the
 * units.
 */
export class Changes {
  readonly #scripts: StoreScripts
  readonly #waiters: string

  constructor(scripts: StoreScripts) {
    this.#scripts = scripts
    this.#waiters = waitersChannel(scripts.keys.prefix)
  }

  /** Rejects with `StoreError`. */
  async run(verb: Verb, charges: readonly Charge[] | readonly ChargeReceipt[], facts: ChangeFacts = {}): Promise<void> {
    const groups = groupByTag<Charge>(charges, charge => this.#scripts.keys.tagOf(charge.key))
    await allCarriedOut(groups.map(({ charges, tag }) => this.#change(verb, charges, tag, facts)))
  }

  /** Counts denials of a key, and blocks it if they are too many. Rejects with `StoreError`. */
  async strike(charge: Charge, { count, ageMs }: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    const tag = this.#scripts.keys.tagOf(charge.key)
    const facts = { units: count, endsAt, strike: { ageMs, rule } } as const
    return strikesOf(await this.#change('strike', [charge], tag, facts))
  }

  /** Returns the script's answer. */
  #change(verb: Verb, charges: readonly Charge[], tag: number, facts: ChangeFacts): Promise<unknown> {
    const { units = 0, words, endsAt, answered, strike } = facts
    const { keys } = this.#scripts
    return this.#scripts.run({
      script: change,
      does: strike === undefined ? verb : 'count denials',
      tag,
      keys: [
        ...charges.map(charge => keys.keyOf(charge, tag)),
        ...charges.map(charge => keys.noteOf(charge, tag)),
        ...charges.map(charge => keys.leasesOf(charge, tag)),
        ...charges.map(charge => keys.blockListOf(charge, tag)),
        ...keys.lineOf(charges, tag),
        keys.waitingUnitsOf(charges, tag),
        ...(strike === undefined ? [] : keys.strikesOf(charges[0], tag)),
      ],
      args: nowMs => [
        verb,
        String(units),
        ...(words?.(tag) ?? ['', '']),
        this.#waiters,
        ...limitArguments(
          charges.map(({ limit }) => limit),
          () => nowMs,
        ),
        ...(verb === 'settle' || verb === 'return' ? receiptArguments(charges as readonly ChargeReceipt[]) : []),
        ...(strike === undefined ? [] : strikeArguments(strike.rule, strike.ageMs)),
      ],
      endsAt,
      answered: answered && (reply => answered(standingOf(reply, charges.length))),
    })
  }
}

/** What the names of the channels begin with on which processes hear that their waiters may fit. */
export function waitersChannel(prefix: string): string {
  return `${prefix}!turns:`
}
