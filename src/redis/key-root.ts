import { PolicyError, shown } from '../core/errors.js'
import { keySegment } from './keys.js'

/**
 * The beginning of all keys of one shared object: `prefix:{name}:kind`. The hash tag keeps them in one slot of a cluster. Throws
 * `PolicyError` for a name or a prefix that is not a text, or empty; `user` names the class.
 */
export function keyRoot(user: string, kind: string, name: string, prefix = 'spillway'): string {
  if (typeof name !== 'string' || name === '') {
    throw new PolicyError(`${user}: name ${shown(name)}: expected a text that is not empty, like "jobs"`)
  }
  if (typeof prefix !== 'string' || prefix === '') {
    throw new PolicyError(`${user}: prefix ${shown(prefix)}: expected a text that is not empty, like "spillway"`)
  }
  return `${keySegment(prefix)}:{${keySegment(name)}}:${kind}`
}
