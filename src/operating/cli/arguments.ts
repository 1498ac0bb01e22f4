import { parseArgs } from 'node:util'
import { SpillwayError, shown } from '../../limiter/core/errors.js'

/**
 * How messages repeat a command line argument. A text that may be a URL or contain a password is not repeated: messages
 * end up in logs and screenshots.
 */
export function shownArgument(text: string): string {
  return /:\/\/|@/.test(text) ? '(not repeated here: it may hold a password)' : shown(text)
}

/** The parts of the process that a command may use. */
export type Terminal = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr' | 'env'>

const FEWEST_COLUMNS = 60

/** How wide text may be: at least 60 columns and at most `most`; `otherwise` where the terminal does not say. */
export function columnsOf({ stdout, env }: Terminal, otherwise: number, most: number): number {
  return Math.min(Math.max(stdout.columns ?? (Number(env.COLUMNS) || otherwise), FEWEST_COLUMNS), most)
}

/** One subcommand of `spillway`. */
export interface Command {
  /** One line for the list of commands. */
  readonly summary: string
  /** What `spillway <command> --help` prints. */
  readonly help: string
  /** Besides `--help`. */
  readonly options: Readonly<Record<string, Option>>
  /**
   * Resolves to the exit code. Throws `UsageError` or `PolicyError` for wrong arguments, any other `SpillwayError` for
   * faults; each has a one-line message. `interrupted` is aborted by Ctrl-C: the command should end quickly and report
   * what it knows.
   */
  run(given: Arguments, terminal: Terminal, interrupted: AbortSignal): Promise<number>
}

export const EXIT = { ok: 0, fault: 1, usage: 2, interrupted: 130 } as const

/**
 * Resolves when the text has been passed on, even to a slow reader: a process that exits earlier loses what is in the
 * pipe. Rejects with the system's error if the reader has gone (EPIPE), with `SpillwayError` if the text cannot be
 * written.
 */
export function write(output: NodeJS.WritableStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write(text, error => {
      if (!error) resolve()
      else if ((error as NodeJS.ErrnoException).code === 'EPIPE') reject(error)
      else reject(new SpillwayError(`cannot write the output: ${error.message}`, { cause: error }))
    })
  })
}

/** Invalid arguments: the message says what was given, what is expected, and an example. */
export class UsageError extends SpillwayError {
  override readonly code = 'SPILLWAY_USAGE'
}

export interface Option {
  /**
   * For an option with a value: a description of the value, like 'a whole number'. Without it the option is a switch.
   */
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

const HELP: Option = { example: '--help', short: 'h' }

/** Runs a command, or prints its help if the arguments ask for it. */
export async function runCommand(
  { help, options, run }: Command,
  args: readonly string[],
  terminal: Terminal,
  interrupted: AbortSignal,
): Promise<number> {
  const given = readArguments(args, options)
  if (!given.has('help')) return run(given, terminal, interrupted)
  await write(terminal.stdout, help)
  return EXIT.ok
}

/**
 * Reads arguments strictly: an option that is unknown, given twice or lacks its value is a `UsageError`. `help` is
 * always an option.
 */
export function readArguments(args: readonly string[], own: Readonly<Record<string, Option>>): Arguments {
  const options: Readonly<Record<string, Option>> = { ...own, help: HELP }
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
    throw new UsageError(`${rawName}: given ${shownArgument(value)}, expected no value, like ${option.example}`)
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
    `unknown option ${shownArgument(name)}, expected one of ${known}, like ${Object.values(options)[0].example}`,
  )
}
