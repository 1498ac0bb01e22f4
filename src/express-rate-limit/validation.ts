import type { CheckName, EnabledValidations } from './check-name.js'
import { checks } from './checks.js'
import type { Logger } from './options.js'
import { ChangeWarning } from './validation-error.js'

type Checks = typeof checks

/** The checks of one limiter: each is made once, on what it meets first, and what it finds is logged. */
export type Validations = Checks & {
  /** By the name of a check: whether it is still to be made. `default` stands for those that are not named. */
  enabled: { [name: string]: boolean }
  /** Leaves out every check that is to come. */
  disable(): void
}

export function validationsOf(validate: boolean | EnabledValidations, logger: Logger): Validations {
  const enabled: Record<string, boolean> =
    typeof validate === 'boolean' ? { default: validate } : { default: true, ...validate }
  const disable = () => {
    for (const name of Object.keys(enabled)) enabled[name] = false
  }
  const validations = { ...checks, enabled, disable }
  for (const name of Object.keys(checks) as CheckName[]) {
    const check = checks[name] as (...args: unknown[]) => void
    validations[name] = (...args: unknown[]) => {
      // Requests come by here again and again: what has been made, or is not wanted, shall cost them nothing.
      validations[name] = nothing
      if (!(enabled[name] ?? enabled.default)) return
      enabled[name] = false
      try {
        check(...args)
      } catch (error) {
        if (error instanceof ChangeWarning) logger.warn(error)
        else logger.error(error)
      }
    }
  }
  return validations
}

function nothing(): void {}
