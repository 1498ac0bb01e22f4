import { CALM_LEVEL, type Load } from '../../http/load.js'
import { asyncDispose } from '../../limiter/core/async-dispose.js'
import { type Duration, formatDuration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkOptions } from '../../limiter/core/options.js'
import { emitWarning } from '../../limiter/core/warnings.js'

/** The weight of a new measurement: a rise counts faster than a fall. */
const RISE_WEIGHT = 0.6
const FALL_WEIGHT = 0.3

const LEAST_EVERY_MS = 100
const MOST_EVERY_MS = 1000
const DEFAULT_EVERY_MS = 500

/** A level that follows measurements smoothly. */
export class SmoothLevel {
  level = 0

  add(measured: number): void {
    const weight = measured > this.level ? RISE_WEIGHT : FALL_WEIGHT
    this.level += (measured - this.level) * weight
  }
}

/** Checks the option `every`: 100 ms to 1 s, default 500 ms. Throws `PolicyError`. */
export function parseEvery(every: Duration | undefined, owner: string): number {
  const ms = every === undefined ? DEFAULT_EVERY_MS : parseOption(every, `${owner}: every`)
  if (ms >= LEAST_EVERY_MS && ms <= MOST_EVERY_MS) return ms
  throw new PolicyError(`${owner}: every ${shown(every)}: expected 100 ms to 1 s, like '500ms'`)
}

/** Options of `customLoad`. */
export interface CustomLoadOptions {
  /** How often to read it, 100 ms to 1 s; default '500ms'. */
  every?: Duration
}

/** `read` may take so long. */
const READ_TIMEOUT_MS = 5000

/**
 * A load that you measure: the length of a queue, the latency of a database. `read` returns a number ≥ 0, 1 at the edge
 * of what is healthy. It is called again after it has answered. If it throws, rejects, returns anything else or takes
 * longer than 5 s, the level stays, with one process warning until it answers again. Does not keep the process alive.
 * Throws `PolicyError` for invalid options.
 */
export function customLoad(read: () => number | Promise<number>, options: CustomLoadOptions = {}): Load {
  if (typeof read !== 'function') {
    throw new PolicyError(`customLoad: given ${shown(read)}, expected a function, like () => queue.length / 1000`)
  }
  checkOptions('customLoad', options, { every: true }, "{ every: '500ms' }")
  const everyMs = parseEvery(options.every, 'customLoad')
  const smooth = new SmoothLevel()
  let reading = false
  let failed = false
  const measure = async () => {
    if (reading) return
    reading = true
    try {
      const measured = await withinTimeout(read())
      if (!(typeof measured === 'number' && measured >= 0 && measured < Number.POSITIVE_INFINITY)) {
        throw new PolicyError(`read returned ${shown(measured)}, expected a number ≥ 0, like 0.5`)
      }
      smooth.add(measured)
      failed = false
    } catch (error) {
      if (!failed) {
        emitWarning('SPILLWAY_LOAD', `customLoad: ${(error as Error)?.message ?? error}`)
      }
      failed = true
    } finally {
      reading = false
    }
  }
  const timer = setInterval(measure, everyMs).unref()
  const close = async () => clearInterval(timer)
  void measure()
  return {
    get level() {
      return smooth.level
    },
    get reason() {
      return smooth.level < CALM_LEVEL ? 'none' : 'custom'
    },
    close,
    [asyncDispose]: close,
  }
}

/** Without it a `read` that never answers would hold the level for ever, in silence. */
async function withinTimeout(reading: number | Promise<number>): Promise<number> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new PolicyError(
      `read has not answered within ${formatDuration(READ_TIMEOUT_MS)}, expected a number sooner`,
    )
    timer = setTimeout(() => reject(error), READ_TIMEOUT_MS)
    timer.unref?.()
  })
  try {
    return await Promise.race([reading, late])
  } finally {
    clearTimeout(timer)
  }
}
