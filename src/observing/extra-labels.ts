import { PolicyError, shown } from '../core/errors.js'
import { METRICS } from './metrics.js'

const OWN = new Set<string>(Object.values(METRICS).flatMap(({ labels }): readonly string[] => labels))

/** Checks labels that every series shall carry; throws `PolicyError`, which begins with `user`. */
export function checkExtraLabels(labels: unknown, user: string, pattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/): void {
  if (typeof labels !== 'object' || labels === null || Array.isArray(labels)) {
    throw new PolicyError(`${user} ${shown(labels)}: expected texts by name, like { region: 'eu' }`)
  }
  for (const [name, value] of Object.entries(labels)) {
    if (OWN.has(name)) {
      throw new PolicyError(
        `${user}: ${shown(name)} is a label that metrics have already: expected another, like "region"`,
      )
    }
    if (!pattern.test(name)) {
      throw new PolicyError(
        `${user}: name ${shown(name)}: expected letters, digits and _, not a digit first, like "region"`,
      )
    }
    if (typeof value !== 'string') {
      throw new PolicyError(`${user}: ${name} ${shown(value)}: expected a text, like "eu"`)
    }
  }
}
