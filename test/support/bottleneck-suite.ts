import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { root } from '../check/files.js'

/** A file of the tests of bottleneck 2.19.5 with the titles that are left out, and why. */
export interface SuiteFile {
  readonly file: string
  readonly without?: Readonly<Record<string, string>>
}

/** All its files that ask the public interface; `DLList.js` and `states.js` test classes that only the original has. */
export const LOCAL_SUITE: readonly SuiteFile[] = [
  { file: 'batcher.js' },
  {
    file: 'general.js',
    without: {
      'Should not leak memory on instantiation': 'needs leakage, an addon that Node 20 cannot load',
      'Should not leak memory running jobs': 'needs leakage, an addon that Node 20 cannot load',
    },
  },
  { file: 'group.js' },
  { file: 'priority.js' },
  { file: 'promises.js' },
  { file: 'retries.js' },
  { file: 'stop.js' },
]

export interface SuiteResult {
  readonly passed: number
  readonly failures: readonly string[]
}

/**
 * Runs its tests with mocha where they lie, against a file of dist/. They compare times on the wall with a tolerance of 50 ms, so that one may be repeated twice on a
 * busy machine.
 */
export async function runSuite(
  entry: string,
  files: readonly SuiteFile[],
  env: Readonly<Record<string, string>> = {},
): Promise<SuiteResult> {
  const cwd = join(root, 'node_modules/bottleneck')
  const without = files.flatMap(file => Object.keys(file.without ?? {}))
  const leftOut = without.length > 0 ? ['--invert', '--grep', `(${without.map(literal).join('|')})$`] : []
  const paths = files.map(({ file }) => `test/${file}`)
  const mocha = join(root, 'node_modules/mocha/bin/mocha.js')
  const child = spawn(
    process.execPath,
    [mocha, '--reporter', 'json', '--retries', '2', '--exit', ...leftOut, ...paths],
    {
      cwd,
      env: {
        ...process.env,
        // Also for the programs that the tests start.
        NODE_OPTIONS: `--require ${join(root, 'test/support/bottleneck-hook.cjs')}`,
        SPILLWAY_BOTTLENECK: join(root, 'dist', entry),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let output = ''
  child.stdout.on('data', data => {
    output += data
  })
  await new Promise(ended => child.once('close', ended))
  // Tests print lines of their own before the report.
  const report = JSON.parse(output.slice(output.search(/^\{\n {2}"stats"/m))) as {
    stats: { passes: number }
    failures: { fullTitle: string; err: { message?: string } }[]
  }
  return {
    passed: report.stats.passes,
    failures: report.failures.map(({ fullTitle, err }) => `${fullTitle}: ${err.message}`),
  }
}

function literal(title: string): string {
  return title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
