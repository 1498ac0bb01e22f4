import { checks } from './checks.js'
import type { Logger } from './options.js'
import { ChangeWarning } from './validation-error.js'

type Checks = typeof checks

/** Which checks are made; `default` speaks for those that are not named. */
export type EnabledValidations = { [name in keyof Checks | 'default']?: boolean }

/** The checks of one limiter: each is made once, on what it meets first, and what it finds is logged. */
export type Validations = Checks & {
  enabled: { [name: string]: boolean }
  disable(): void
}

export function validationsOf(validate: boolean | EnabledValidations, logger: Logger): Validations {
  const enabled: Record<string, boolean> =
    typeof validate === 'boolean' ? { default: validate } : { default: true, ...validate }
  const once = Object.entries(checks).map(([name, check]) => [
    name,
    (...args: unknown[]) => {
      if (!(enabled[name] ?? enabled.default)) return
      enabled[name] = false
      try {
        ;(check as (...args: unknown[]) => void)(...args)
      } catch (error) {
        if (error instanceof ChangeWarning) logger.warn(error)
        else logger.error(error)
      }
    },
  ])
  return {
    ...(Object.fromEntries(once) as Checks),
    enabled,
    disable() {
      for (const name of Object.keys(enabled)) enabled[name] = false
    },
  }
}
