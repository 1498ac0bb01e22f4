import { checkInteger, checkOptions } from './options.js'

/** Some of a list. */
export interface Listed<T> {
  /** At most as many as were asked for. */
  readonly items: readonly T[]
  /** How many more there are. */
  readonly more: number
}

/** Options of `inspect`. */
export interface InspectOptions {
  /** Most items to list: integer from 0 to 1000, default 50. */
  limit?: number
}

/** How many items to list. Throws `PolicyError`, in which `user` names the called method. */
export function listLimit(limit: number | undefined, user: string): number {
  if (limit !== undefined) checkInteger(limit, `${user}: limit`, 50, 0, 1000)
  return limit ?? 50
}

/** As `listLimit`, where there is no other option. */
export function parseInspectOptions(options: InspectOptions, user: string): number {
  checkOptions(user, options, { limit: true }, '{ limit: 50 }')
  return listLimit(options.limit, user)
}
