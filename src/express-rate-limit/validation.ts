import type { CheckName, EnabledValidations } from './check-name.js'
import { checks } from './checks.js'
import type { Logger } from './options.js'
import { ChangeWarning } from './validation-error.js'

type Checks = typeof checks

/** The checks of one limiter: each runs once, at the first opportunity, and logs what it finds. */
export type Validations = Checks & {
  /** By the name of a check: whether it still has to run. `default` applies to those that are not named. */
  enabled: { [name: string]: boolean }
  /** Disables all checks that have not run yet. */
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
      // Every request comes here: a check that has run, or is disabled, must cost nothing.
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
