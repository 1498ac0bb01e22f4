import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { cpus, release, totalmem, type } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { redisBinary } from '../../test/support/redis-process.js'
import { chosenEffort, type Effort } from './contest.js'
import { figure, type Median, spread, type Table, tableText } from './figures.js'

/** A promise with a number in it, and what was measured. */
export interface Claim {
  readonly text: string
  readonly bound: 'at least' | 'at most' | 'exactly'
  readonly target: number
  readonly measured: Median
  /** What the number counts; a ratio has none. */
  readonly unit?: string
}

function holds({ bound, target, measured: { value } }: Claim): boolean {
  if (bound === 'exactly') return value === target
  return bound === 'at least' ? value >= target : value <= target
}

/** What one file of bench/ has found. */
export interface Report {
  readonly title: string
  /** How it was measured, in a few sentences. */
  readonly method: string
  readonly tables: readonly Table[]
  readonly claims: readonly Claim[]
}

export type Measure = (effort: Effort) => Promise<Report>

export function reportText({ title, method, tables, claims }: Report): string {
  const own = claims.length > 0 ? [tableText(claimTable(claims))] : []
  return [`## ${title}`, method, ...tables.map(tableText), ...own].join('\n\n')
}

export function claimTable(claims: readonly Claim[], caption = 'Claims'): Table {
  const signs = { 'at least': '≥', 'at most': '≤', exactly: '=' }
  return {
    caption,
    head: ['claim', 'target', 'measured', 'holds'],
    rows: claims.map(claim => {
      const unit = claim.unit ? ` ${claim.unit}` : ' ×'
      return [
        claim.text,
        `${signs[claim.bound]} ${figure(claim.target)}${unit}`,
        `${spread(claim.measured)}${unit}`,
        holds(claim) ? 'yes' : 'NO',
      ]
    }),
  }
}

/**
 * Measures and prints if `module` is the program that was started, so that every file of bench/ also runs by itself.
 */
export async function runAlone(module: ImportMeta, measure: Measure): Promise<void> {
  if (module.url !== pathToFileURL(process.argv[1] ?? '').href) return
  prepare()
  console.log(`\n${reportText(await measure(chosenEffort()))}`)
}

/** Says what is being measured: a line on standard error, so that standard output holds the results alone. */
export function progress(text: string): void {
  console.error(`  ${new Date().toTimeString().slice(0, 8)}  ${text}`)
}

/** What the numbers were measured on, in one line. */
export function machine(): string {
  const cores = cpus()
  const version = spawnSync(redisBinary(), ['--version'], { encoding: 'utf8' }).stdout.match(/v=(\S+)/)?.[1]
  const memory = `${Math.round(totalmem() / 2 ** 30)} GB`
  return `${cores.length} cores (${cores[0].model.trim()}), ${memory}, ${type()} ${release()}, Node ${process.versions.node}, Redis ${version}`
}

const bench = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Builds what is measured and installs the peers, each only if that was not done yet. */
export function prepare(): void {
  run(process.execPath, [join(bench, '../scripts/build.mjs')])
  const installed = changedAt('node_modules/.package-lock.json')
  if (installed !== undefined && installed >= changedAt('package-lock.json')!) return
  console.log('Installing the peers in bench/node_modules')
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'])
}

function changedAt(file: string): number | undefined {
  return statSync(join(bench, file), { throwIfNoEntry: false })?.mtimeMs
}

function run(program: string, args: readonly string[]): void {
  const { status, error } = spawnSync(program, args, { cwd: bench, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status === 0) return
  console.error(`bench: ${program} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`)
  process.exit(1)
}

/** What another file of bench/ prints when it runs by itself. */
export function printed(file: string): string {
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  const { status, stdout } = spawnSync(process.execPath, ['--import', 'tsx', path], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`bench/${file} ended with code ${status}`)
  return stdout.trim()
}

/**
 * The benchmarks that the command line names; undefined if it names none. A name that there is not ends the process
 * with the list.
 */
export function chosenNames(all: readonly string[]): readonly string[] | undefined {
  const names = process.argv.slice(2).filter(argument => !argument.startsWith('-'))
  const wrong = names.find(name => !all.includes(name))
  if (wrong !== undefined) {
    console.error(
      `bench: unknown benchmark "${wrong}": expected some of ${all.join(', ')}, like npm run bench -- redis memory`,
    )
    process.exit(1)
  }
  return names.length > 0 ? names : undefined
}
