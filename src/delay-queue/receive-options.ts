import type { Duration } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'
import { checkOptions, type OptionNames } from '../core/option-names.js'
import { type Patience, patienceOf, timeoutOf } from '../waiting/wait.js'
import { parseVisibility } from './options.js'

/** Options of `DelayQueue.receive`. */
export interface ReceiveOptions {
  /** Most messages to take: integer from 1 to 1000, default 1. */
  count?: number
  /** How long to wait for the first message. Default 0: does not wait; `Infinity`: until there is one. */
  wait?: Duration | 0
  /** How long the deliveries belong to this caller. Default: the queue's `visibility`. More than 0, at most 400 years. */
  visibility?: Duration
  /** Aborting it rejects with its reason; messages taken by then are put back, not counted as an attempt. */
  signal?: AbortSignal
}

interface ReceiveSettings {
  readonly count: number
  readonly patience: Patience
  readonly visibilityMs: number
}

const NAMES: OptionNames<ReceiveOptions> = { count: true, wait: true, visibility: true, signal: true }

/** Checks the options: `PolicyError`, which begins with `user`. `visibilityMs`: the queue's. */
export function parseReceiveOptions(options: ReceiveOptions, visibilityMs: number, user: string): ReceiveSettings {
  checkOptions(user, options, NAMES, "{ count: 10, wait: '5s' }")
  const { count = 1, wait = 0, visibility, signal } = options
  if (!(Number.isInteger(count) && count >= 1 && count <= 1000)) {
    throw new PolicyError(`${user}: count ${shown(count)}: expected an integer from 1 to 1000, like 10`)
  }
  return {
    count,
    patience: patienceOf({ timeout: timeoutOf(wait, `${user}: wait`), signal }, user, 0),
    visibilityMs: visibility === undefined ? visibilityMs : parseVisibility(visibility, `${user}: visibility`),
  }
}
