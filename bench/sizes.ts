// How much a user's bundle grows by each entry point, minified, with all its names; the way in that most programs take;
// and the same of peers. And how large the tarball is when it is unpacked.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { figure, single } from './contest/figures.js'
import { progress, type Report, runAlone } from './contest/report.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TARBALL_MB = 2.4
const json = (file: string) => JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8'))

/** What a program takes → the line that takes it. */
const PROGRAMS: Readonly<Record<string, string>> = {
  '`{ rateLimit }` of spillway/express': "export { rateLimit } from 'spillway/express'",
  '`{ RateLimiter }`': "export { RateLimiter } from 'spillway'",
  '`{ RateLimiter, RedisStore }`': "export { RateLimiter, RedisStore } from 'spillway'",
  'express-rate-limit': "export * from 'express-rate-limit'",
  'rate-limiter-flexible, `{ RateLimiterMemory }`': "export { RateLimiterMemory } from 'rate-limiter-flexible'",
  'koa-ratelimit': "export { default } from 'koa-ratelimit'",
  bottleneck: "export { default } from 'bottleneck'",
}

async function sizesOf(line: string, external: string[]): Promise<[kB: string, gzip: string]> {
  const { outputFiles } = await build({
    stdin: { contents: line, resolveDir: ROOT },
    ...{ bundle: true, minify: true, write: false, platform: 'node', format: 'esm', external, logLevel: 'error' },
  })
  const { contents } = outputFiles[0]
  return [figure(contents.length / 1000), figure(gzipSync(contents).length / 1000)]
}

export async function sizes(): Promise<Report> {
  progress('sizes')
  const peers = Object.keys(json('package.json').peerDependencies).filter(name => name !== 'express-rate-limit')
  const entries = Object.keys(json('scripts/entries.json'))
    .map(name => (name === 'index' ? 'spillway' : `spillway/${name}`))
    .sort()
  const rows = async (programs: readonly (readonly [name: string, line: string])[]) => {
    const found: string[][] = []
    for (const [name, line] of programs) found.push([name, ...(await sizesOf(line, peers))])
    return found
  }
  const head = ['what', 'kB', 'kB, gzip']
  const { stdout } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  const [{ size, unpackedSize }] = JSON.parse(stdout)
  const mB = unpackedSize / 1e6
  return {
    title: 'Sizes',
    method: `What esbuild makes of it, minified, without the packages that a user installs beside it. The tarball has ${figure(size / 1e6)} MB, unpacked ${figure(mB)} MB.`,
    tables: [
      { caption: 'Parts that programs take, and peers', head, rows: await rows(Object.entries(PROGRAMS)) },
      { caption: 'Whole entry points', head, rows: await rows(entries.map(name => [name, `export * from '${name}'`])) },
    ],
    claims: [
      {
        text: 'the tarball, unpacked',
        bound: 'at most',
        target: TARBALL_MB,
        measured: single(mB),
        unit: 'MB',
      },
    ],
  }
}

await runAlone(import.meta, sizes)
