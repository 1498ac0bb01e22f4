import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { root } from '../support/files.js'

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

const KEYS = 'reads the keys or the locks of the original'

/** What it asks of Redis. `node_redis.js` needs the callbacks of node-redis 2. */
export const REDIS_SUITE: readonly SuiteFile[] = [
  { file: 'ioredis.js' },
  {
    file: 'cluster.js',
    without: {
      'Should not have a key TTL by default for standalone limiters': KEYS,
      'Should allow timeout setting for standalone limiters': KEYS,
      'Should compute reservoir increased based on number of missed intervals': KEYS,
      'Should migrate from 2.8.0': KEYS,
      "Should keep track of each client's queue length": KEYS,
      'Should remove track job data and remove lost jobs': KEYS,
      'Should clear unresponsive clients': KEYS,
      'Should not clear unresponsive clients with unexpired running jobs': KEYS,
      'Should clear unresponsive clients after last jobs are expired': KEYS,
      'Should use the limiter ID to build Redis keys': KEYS,
      'Should not fail when Redis data is missing': KEYS,
      'Should drop all jobs in the Cluster when entering blocked mode': KEYS,
      'Should have a default key TTL when using Groups': KEYS,
      'Should support Groups and expire Redis keys': KEYS,
      'Should not recreate a key when running heartbeat': KEYS,
      'Should delete Redis key when manually deleting a group key': KEYS,
      'Should delete Redis keys from a group even when the local limiter is not present': KEYS,
    },
  },
]

const FROM_READY =
  'asks for more than the sum of its timers, counted from ready(), which is ms after the first of them began: it passes only while a job takes longer than to connect'

/** The local tests over Redis. A Batcher does not know where its limiter keeps its state. */
export const SUITE_OVER_REDIS: readonly SuiteFile[] = [
  {
    file: 'batcher.js',
    without: {
      'Should stagger flushes': FROM_READY,
      'Should force then stagger flushes': FROM_READY,
    },
  },
  ...LOCAL_SUITE.slice(1),
]

export interface SuiteResult {
  readonly passed: number
  readonly failures: readonly string[]
}

/**
 * Runs its tests with mocha where they lie, against a file of dist/. They compare times on the wall with a tolerance of
 * 50 ms, so that one may be repeated twice on a busy machine.
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
  const mocha = join(root, 'test/versions/node_modules/mocha/bin/mocha.js')
  const child = spawn(
    process.execPath,
    [mocha, '--reporter', 'json', '--retries', '2', '--exit', ...leftOut, ...paths],
    {
      cwd,
      env: {
        ...process.env,
        // Also for the programs that the tests start.
        NODE_OPTIONS: `--require ${join(root, 'test/versions/bottleneck-hook.cjs')}`,
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
