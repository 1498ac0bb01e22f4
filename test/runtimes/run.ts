// Packs the package, installs it in a project of its own, and runs the cases on every runtime, loaded by import and by
// require. Fails if a case fails, or if the table of docs/runtimes.md says anything else than what was found.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { RedisServer } from '../support/redis-server.js'
import { LAST, type Outcome } from './case.js'
import { npm, type Runtime, runtimes } from './runtimes.js'
import { tableOf } from './table.js'

const ROOT = join(import.meta.dirname, '../..')
const FORMATS = { import: ['esm', 'mjs'], require: ['cjs', 'cjs'] } as const
/** They wait most of the time. */
const AT_ONCE = 4
/** The whole program takes about ten seconds. */
const LONGEST_MS = 60_000

/** What one runtime has found, loaded in one way. */
export interface Finding extends Outcome {
  readonly runtime: Runtime
  readonly loadedBy: keyof typeof FORMATS
}

/** What stands beside the package in a project: those that this repository has, and nothing else of them. */
const BESIDE = ['express', 'h3', 'ioredis', 'redis']

/** A project with the packed package, and the cases as programs. */
async function project(): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), 'spillway-runtimes-'))
  const dependencies = Object.fromEntries(BESIDE.map(name => [name, '*']))
  writeFileSync(join(home, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies }))
  const [{ filename }] = JSON.parse(npm(ROOT, 'pack', '--ignore-scripts', '--json', '--pack-destination', home))
  const installed = join(home, 'node_modules/spillway')
  mkdirSync(installed, { recursive: true })
  for (const name of BESIDE) symlinkSync(join(ROOT, 'node_modules', name), join(home, 'node_modules', name))
  execFileSync('tar', ['-xzf', join(home, filename), '-C', installed, '--strip-components', '1'])
  for (const [loadedBy, [format, extension]] of Object.entries(FORMATS)) {
    await build({
      entryPoints: [join(import.meta.dirname, 'program.ts')],
      outfile: join(home, `program.${extension}`),
      bundle: true,
      platform: 'node',
      target: 'node20',
      format,
      packages: 'external',
      define: { LOADED_BY: JSON.stringify(loadedBy) },
      logLevel: 'warning',
    })
  }
  return home
}

/** Runs the program to its end; what it has printed, and how it ended if not well. */
function run(runtime: Runtime, home: string, loadedBy: Finding['loadedBy'], redisUrl: string): Promise<Finding[]> {
  const startedAt = performance.now()
  const [program, ...args] = runtime.command
  const child = spawn(program, [...args, `program.${FORMATS[loadedBy][1]}`], {
    cwd: home,
    env: { ...process.env, REDIS_URL: redisUrl, RUN: `${runtime.title} ${loadedBy}`, NODE_OPTIONS: '', NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LONGEST_MS,
    killSignal: 'SIGKILL',
  })
  let printed = ''
  let complaints = ''
  child.stdout.setEncoding('utf8').on('data', text => (printed += text))
  child.stderr.setEncoding('utf8').on('data', text => (complaints += text))
  return new Promise(resolve => {
    const end = (how: string) => {
      const ms = Math.round(performance.now() - startedAt)
      const outcomes: Outcome[] = printed
        .split('\n')
        .filter(line => line.startsWith('{'))
        .map(line => JSON.parse(line))
      const finished = outcomes.at(-1)?.name === LAST
      const failure = how || (finished ? '' : 'ended before its last case')
      const loss = failure === '' ? [] : [{ name: LAST, ms, error: `${failure}\n${complaints}` }]
      resolve([...outcomes, ...loss].map(outcome => ({ ...outcome, runtime, loadedBy })))
    }
    child.on('error', error => end(error.message))
    child.on('close', (code, signal) => end(code === 0 ? '' : `exit code ${code}, signal ${signal}`))
  })
}

function print({ runtime, loadedBy, name, ms, told, error }: Finding): void {
  const line = `${runtime.title.padEnd(13)} ${loadedBy.padEnd(7)} ${name.padEnd(32)} ${`${ms}`.padStart(5)} ms`
  console.log(`${error === undefined ? 'ok  ' : 'FAIL'} ${line}  ${error ?? told}`)
}

async function main(): Promise<boolean> {
  const startedAt = performance.now()
  const all = runtimes()
  const home = await project()
  const redis = await RedisServer.start()
  const findings: Finding[] = []
  try {
    const jobs = all.flatMap(runtime => (['import', 'require'] as const).map(loadedBy => ({ runtime, loadedBy })))
    const work = async () => {
      for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) {
        const found = await run(job.runtime, home, job.loadedBy, redis.url)
        for (const finding of found) print(finding)
        findings.push(...found)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  } finally {
    await redis.stop()
    rmSync(home, { recursive: true, force: true })
  }
  const failed = findings.filter(({ error }) => error !== undefined)
  const table = tableOf(all, findings)
  const isTold = readFileSync(join(ROOT, 'docs/runtimes.md'), 'utf8').includes(`\n${table}\n`)
  if (!isTold) console.log(`FAIL docs/runtimes.md: its table has to be\n${table}`)
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  console.log(`${findings.length - failed.length} of ${findings.length} cases on ${all.length} runtimes, ${seconds} s`)
  return failed.length === 0 && isTold
}

if (!(await main())) process.exitCode = 1
