import { type Duration, formatDuration } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'
import { checkOptions } from '../core/option-names.js'
import { emitWarning } from '../core/warning.js'
import { CALM_LEVEL, type Load, parseEvery, SmoothLevel } from './load.js'

/** Options of `customLoad`. */
export interface CustomLoadOptions {
  /** How often to read it, 100 ms to 1 s; default '500ms'. */
  every?: Duration
}

/** `read` may take so long. */
const PATIENCE_MS = 5000

/**
 * A load that you measure: the length of a queue, the latency of a database. `read` returns a number ≥ 0, 1 at the edge of what is healthy. It
 * is called again after it has answered. If it throws, rejects, returns anything else or takes longer than 5 s, the level stays, with one process warning
 * until it answers again. Does not keep the process alive. Throws `PolicyError` for invalid options.
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
      const measured = await withinPatience(read())
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
  void measure()
  return {
    get level() {
      return smooth.level
    },
    get reason() {
      return smooth.level < CALM_LEVEL ? 'none' : 'custom'
    },
    close: () => clearInterval(timer),
  }
}

/** Without it a `read` that never answers would hold the level for ever, in silence. */
async function withinPatience(reading: number | Promise<number>): Promise<number> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new PolicyError(
      `read has not answered within ${formatDuration(PATIENCE_MS)}, expected a number sooner`,
    )
    timer = setTimeout(() => reject(error), PATIENCE_MS)
    timer.unref?.()
  })
  try {
    return await Promise.race([reading, late])
  } finally {
    clearTimeout(timer)
  }
}
