import { basename, relative } from 'node:path'
import { NEWCOMERS } from '../../../http/newcomers.js'
import { SpillwayError } from '../../../limiter/core/errors.js'
import { printable } from '../../../limiter/core/printable.js'
import { type Command, EXIT, shownArgument, UsageError, write } from '../arguments.js'
import { counted } from '../table.js'
import { projectFiles, readText, replaceFile } from './project-files.js'
import { REPLACED } from './replaced-packages.js'
import { rewritten, type Use, usesOf } from './uses.js'

const DOCUMENTS = 'https://github.com/spillway/spillway/blob/main/docs/'

const HELP = `Usage: spillway migrate [--write] [PATH]

Reports what a project uses of ${Object.keys(REPLACED).join(', ')}: the lines
that import them, the options that their calls are given, and what takes their place here. PATH is a folder or a file;
without it, the current folder. Changes nothing without --write.

  spillway migrate
  spillway migrate --write src

  --write          rewrites the import lines where a drop-in exists, like 'express-rate-limit' to
                   'spillway/express-rate-limit'; the rest of the program stays as it is
  -h, --help

Reads .js, .mjs, .cjs, .jsx, .ts, .mts, .cts and .tsx. Leaves out node_modules, .git, folders of builds (dist, build,
out, coverage, .next …), links, and files above 2 MB.
`

/** Which packages a project uses, how often, and which it asks for in package.json. */
interface Findings {
  readonly uses: Map<string, number>
  readonly wanted: Map<string, string>
  rewritten: number
  byHand: number
  readonly faults: string[]
}

export const migrateCommand: Command = {
  summary: 'reports what a project uses of other limiters, and rewrites imports',
  help: HELP,
  options: { write: { example: '--write' } },

  async run(given, { stdout, stderr }, interrupted) {
    const [path = '.', ...more] = given.positionals
    if (more.length > 0) {
      const shown = given.positionals.map(shownArgument).join(' ')
      throw new UsageError(`given ${shown}, expected one file or folder, like: spillway migrate --write src`)
    }
    const writes = given.has('write')
    const found: Findings = { uses: new Map(), wanted: new Map(), rewritten: 0, byHand: 0, faults: [] }
    try {
      for await (const file of projectFiles(path)) {
        if (interrupted.aborted) break
        const text = await examine(file, writes, found)
        if (text !== '') await write(stdout, text)
      }
    } catch (error) {
      if (error instanceof SpillwayError || (error as NodeJS.ErrnoException).code === 'EPIPE') throw error
      throw new SpillwayError(`cannot read ${shownArgument(path)}: ${(error as Error).message}`, { cause: error })
    }
    await write(stdout, summaryOf(found, writes, interrupted.aborted))
    for (const fault of found.faults) await write(stderr, `spillway migrate: ${printable(fault)}\n`)
    if (interrupted.aborted) return EXIT.interrupted
    return found.faults.length > 0 ? EXIT.fault : EXIT.ok
  },
}

/** Looks at one file, and rewrites it if `writes`. Returns its part of the report. */
async function examine(file: string, writes: boolean, found: Findings): Promise<string> {
  const shown = relative('', file) || file
  try {
    const program = await readText(file)
    if (program === undefined) throw new Error('it is not UTF-8')
    if (basename(file) === 'package.json') {
      noteWanted(program, found)
      return ''
    }
    const uses = usesOf(program)
    if (uses.length === 0) return ''
    if (writes && uses.some(({ dropIn }) => dropIn !== undefined)) {
      await replaceFile(file, program, rewritten(program, uses))
    }
    for (const { package: name, dropIn } of uses) {
      found.uses.set(name, (found.uses.get(name) ?? 0) + 1)
      if (dropIn === undefined) found.byHand++
      else found.rewritten++
    }
    return `${printable(shown)}\n${uses.map(use => linesOf(use, writes)).join('')}\n`
  } catch (error) {
    found.faults.push(`${shown}: ${(error as Error).message}; it is left as it is`)
    return ''
  }
}

function linesOf({ line, text, dropIn, reason, options, specifier }: Use, writes: boolean): string {
  const head = `${line}`.padStart(5)
  const indent = ' '.repeat(7)
  const what =
    dropIn === undefined
      ? `by hand: ${reason}`
      : `${writes ? 'rewritten' : 'would be rewritten'}: '${specifier}' → '${dropIn}'`
  const lines = [`${head}  ${text.length > 100 ? `${text.slice(0, 99)}…` : text}`, `${indent}${what}`]
  if (options.length > 0) lines.push(`${indent}options: ${options.map(ourOption).join(', ')}`)
  return lines.map(one => `${printable(one)}\n`).join('')
}

/** These are options of `concurrencyLimit`, and none of these packages limits concurrent requests. */
const ELSEWHERE = ['permits', 'client']

/** An option, and that of our own middleware which has another name for it. */
function ourOption(option: string): string {
  const entry = NEWCOMERS.find(([ours, , foreign]) => !ELSEWHERE.includes(ours) && foreign.split(' ').includes(option))
  return entry === undefined || entry[0] === option ? option : `${option} (${entry[0]})`
}

function noteWanted(text: string, { wanted }: Findings): void {
  const json = JSON.parse(text) as Record<string, Record<string, unknown> | undefined>
  for (const kind of ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies']) {
    for (const [name, range] of Object.entries(json[kind] ?? {})) {
      if (Object.hasOwn(REPLACED, name)) wanted.set(name, String(range))
    }
  }
}

function summaryOf({ uses, wanted, rewritten, byHand }: Findings, writes: boolean, isPart: boolean): string {
  const names = Object.keys(REPLACED).filter(name => uses.has(name) || wanted.has(name))
  if (names.length === 0) return `No use of ${Object.keys(REPLACED).join(', ')} was found${isPart ? ' so far' : ''}.\n`
  const packages = names.map(name => {
    const { dropIns, version, own, page } = REPLACED[name]
    const [dropIn] = Object.values(dropIns)
    const asked = wanted.get(name)
    return [
      `${name}${asked === undefined ? '' : ` ${asked}`}: ${counted(uses.get(name) ?? 0, 'use')}`,
      dropIn === undefined ? '  no drop-in' : `  drop-in: ${dropIn}, for version ${version}`,
      `  our own API: ${own}`,
      `  differences and programs: ${DOCUMENTS}${page}`,
    ].map(line => `${printable(line)}\n`)
  })
  const soFar = isPart ? 'So far ' : ''
  const done = writes ? 'rewritten' : 'can be rewritten'
  const lines = `${soFar}${counted(rewritten, 'import')} ${done}, ${byHand} by hand.`
  const next =
    rewritten === 0
      ? ''
      : writes
        ? ' Now npm install spillway, run your tests, and remove what nothing uses any more.'
        : ' Nothing was changed: --write does it. Commit your work first.'
  return `${packages.map(lines => `${lines.join('')}\n`).join('')}${lines}${next}\n`
}
