import { PolicyError, shown } from './errors.js'

/**
 * What people write who come from elsewhere: [the option here, what it means, their names for it, between spaces]. The
 * first row counts whose option the called function has.
 */
export type ForeignNames = ReadonlyArray<readonly [option: string, meaning: string, names: string]>

/** What to write instead of a name of elsewhere, if the called function has such an option. */
function foreignHint(option: string, own: readonly string[], foreign: ForeignNames): string | undefined {
  return foreign.find(([name, , names]) => own.includes(name) && names.split(' ').includes(option))?.[1]
}

/** The names of the options of a type: the compiler checks that the list is complete. */
export type OptionNames<Options> = Readonly<Record<keyof Options & string, true>>

const STORE_PREFIX = 'the prefix of keys is an option of the store, like new RedisStore(client, { prefix: "app" })'

/**
 * Throws `PolicyError` if `options` is not an object, or has an option that is not in `names`; the error suggests the
 * name that was most likely meant.
 *
 * `owner` begins the message, like 'RedisStore' or 'acquire'; `example` ends it, like '{ prefix: "app" }'; `foreign`:
 * names of elsewhere for these options.
 */
export function checkOptions(
  owner: string,
  options: unknown,
  names: Readonly<Record<string, true>>,
  example: string,
  foreign: ForeignNames = [],
): void {
  checkObject(owner, options, example)
  for (const option of Object.keys(options)) {
    if (!Object.hasOwn(names, option)) {
      throw new PolicyError(
        `${owner}: unknown option ${shown(option)}: ${hintFor(option, Object.keys(names), foreign)}`,
      )
    }
  }
}

/** Throws `PolicyError` unless `options` is an object; its names are not checked. */
export function checkObject(owner: string, options: unknown, example: string): asserts options is object {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new PolicyError(`${owner}: given ${shown(options)}, expected options like ${example}`)
  }
}

function hintFor(option: string, names: readonly string[], foreign: ForeignNames): string {
  if (/prefix$/i.test(option)) return names.includes('prefix') ? 'did you mean prefix?' : STORE_PREFIX
  const hint = foreignHint(option, names, foreign)
  if (hint !== undefined) return hint
  const name = similarName(option, names)
  if (name !== undefined) return `did you mean ${name}?`
  return names.length > 0 ? `expected ${names.join(', ')}` : 'expected none'
}

/**
 * The most likely intended name: one that differs only in case or in up to a third of its letters, or that the given
 * one begins.
 */
function similarName(given: string, names: readonly string[]): string | undefined {
  const text = given.toLowerCase()
  let similar: string | undefined
  let least = Number.POSITIVE_INFINITY
  for (const name of names) {
    const distance = editDistance(text, name.toLowerCase())
    if (distance < least && distance <= Math.max(text.length, name.length) / 3) {
      similar = name
      least = distance
    }
  }
  // 'dead' for deadline, 'maximum' for max.
  return similar ?? names.find(name => (text.length > 3 && name.toLowerCase().startsWith(text)) || isLonger(text, name))
}

const ABBREVIATIONS = { max: 'maximum', min: 'minimum' }

function isLonger(text: string, name: string): boolean {
  return ABBREVIATIONS[name as keyof typeof ABBREVIATIONS] === text
}

/** The number of letters to insert, remove or change, or of neighbours to swap. */
function editDistance(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) next[j] = Math.min(next[j], before[j - 2] + 1)
    }
    before = row
    row = next
  }
  return row[b.length]
}

/*
 * Checks of single values. Each throws `PolicyError` with what was given, what was expected, and an example. `what`
 * names the option, like 'RedisStore: maxBatch'.
 */

/** Without `max`: from `min` up. */
export function checkInteger(value: unknown, what: string, example: number | string, min: number, max?: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= (max ?? Infinity)) return
  const range = max === undefined ? `≥ ${min}` : `from ${min} to ${max}`
  throw new PolicyError(`${what} ${shown(value)}: expected an integer ${range}, like ${example}`)
}

export function checkFlag(value: unknown, what: string): void {
  if (typeof value !== 'boolean') throw new PolicyError(`${what} ${shown(value)}: expected true or false`)
}

export function checkText(value: unknown, what: string, example: string): void {
  if (typeof value === 'string' && value !== '') return
  throw new PolicyError(`${what} ${shown(value)}: expected a text that is not empty, like "${example}"`)
}

export function checkFunction(value: unknown, what: string, example: string): void {
  if (typeof value === 'function') return
  throw new PolicyError(`${what} ${shown(value)}: expected a function, like ${example}`)
}

export function checkClock(clock: unknown, what: string): void {
  if (typeof (clock as { now?: unknown } | undefined)?.now === 'function') return
  throw new PolicyError(`${what} ${shown(clock)}: expected an object with now(), like new ManualClock()`)
}
