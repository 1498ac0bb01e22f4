import { parseArgs } from 'node:util'
import { SpillwayError } from '../core/errors.js'
import { shownGiven } from './shown-given.js'

/** Invalid arguments: the message says what was given, what is expected, and an example. */
export class UsageError extends SpillwayError {
  override readonly code = 'SPILLWAY_USAGE'
}

export interface Option {
  /** For an option with a value: a description of the value, like 'a whole number'. Without it the option is a switch. */
  readonly value?: string
  readonly example: string
  readonly short?: string
  /** May be given more than once. */
  readonly repeated?: boolean
}

export interface Arguments {
  readonly positionals: readonly string[]
  has(option: string): boolean
  /** The values in the order given; none if the option was not. */
  values(option: string): readonly string[]
}

/** Reads arguments strictly: an option that is unknown, given twice or lacks its value is a `UsageError`. */
export function readArguments(args: readonly string[], options: Readonly<Record<string, Option>>): Arguments {
  const found = new Map<string, string[]>()
  const positionals: string[] = []
  // Not `strict`: its messages use words like "positionals", and give no example.
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(Object.entries(options).map(([name, option]) => [name, shapeOf(option)])),
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (!option) throw unknownOption(token.rawName, options)
    const values = found.get(token.name) ?? []
    if (values.length > 0 && !option.repeated) {
      throw new UsageError(`${token.rawName} was given twice, expected it once, like ${option.example}`)
    }
    found.set(token.name, [...values, readValue(token, option)])
  }
  return { positionals, has: option => found.has(option), values: option => found.get(option) ?? [] }
}

function shapeOf({ value, short }: Option) {
  const type = value === undefined ? ('boolean' as const) : ('string' as const)
  return short === undefined ? { type } : { type, short }
}

function readValue(token: { rawName: string; value?: string; inlineValue?: boolean }, option: Option): string {
  const { rawName, value, inlineValue } = token
  if (option.value === undefined) {
    if (value === undefined) return ''
    throw new UsageError(`${rawName}: given ${shownGiven(value)}, expected no value, like ${option.example}`)
  }
  // `--policy --json`: the value was forgotten. One that begins with a dash can be given as `--policy=-x`.
  if (value === undefined || (!inlineValue && /^-\D/.test(value))) {
    throw new UsageError(`${rawName}: given no value, expected ${option.value}, like ${option.example}`)
  }
  return value
}

function unknownOption(name: string, options: Readonly<Record<string, Option>>): UsageError {
  const known = Object.keys(options)
    .map(option => `--${option}`)
    .join(', ')
  return new UsageError(
    `unknown option ${shownGiven(name)}, expected one of ${known}, like ${Object.values(options)[0].example}`,
  )
}
