import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { root } from '../support/files.js'

const home = mkdtempSync(join(tmpdir(), 'spillway-nitro-'))
let server: ChildProcess | undefined
afterAll(async () => {
  if (server !== undefined && server.exitCode === null) {
    server.kill('SIGKILL')
    await once(server, 'close')
  }
  rmSync(home, { recursive: true })
})

/** Builds the example as its user does, with the package as it is built, and starts what Nitro has made. */
async function start(): Promise<string> {
  cpSync(join(root, 'examples/nitro'), home, { recursive: true })
  writeFileSync(join(home, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  mkdirSync(join(home, 'node_modules'))
  symlinkSync(root, join(home, 'node_modules/spillway'))
  const nitro = join(root, 'test/versions/node_modules/nitro')
  symlinkSync(nitro, join(home, 'node_modules/nitro'))
  const env = { ...process.env, HOST: '127.0.0.1', PORT: '0', NO_COLOR: '1', NODE_ENV: undefined }
  execFileSync(process.execPath, [join(nitro, 'dist/cli/index.mjs'), 'build'], { cwd: home, env, stdio: 'pipe' })
  server = spawn(process.execPath, ['.output/server/index.mjs'], {
    cwd: home,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of server.stdout!) {
    const url = /http:\/\/[\w.[\]:]+:\d+/.exec(`${line}`)?.[0]
    if (url !== undefined) return url
  }
  throw new Error('the server ended without saying where it listens')
}

test('examples/nitro: the route rules limit two routes apart, and others not at all', async () => {
  const url = await start()
  const ask = async (method: string, path: string, count: number) => {
    const statuses = []
    for (let i = 0; i < count; i++) statuses.push((await fetch(url + path, { method })).status)
    return statuses
  }
  expect(await ask('POST', '/login', 4)).toEqual([200, 200, 200, 429])
  expect(await ask('GET', '/search/a', 3)).toEqual([200, 200, 200])
  expect(await ask('GET', '/search/b', 3)).toEqual([200, 200, 429])
  expect(await ask('GET', '/', 9)).toEqual(new Array(9).fill(200))
  const refused = await fetch(`${url}/login`, { method: 'POST' })
  expect([refused.headers.get('ratelimit-policy'), await refused.text()]).toEqual([
    '"login";q=3;w=900',
    expect.stringMatching(/^Too many requests: try again in \d+ seconds\.\n$/),
  ])
}, 60_000)

test('docs/h3.md shows its files', () => {
  const page = readFileSync(join(root, 'docs/h3.md'), 'utf8')
  for (const file of ['nitro.config.mjs', 'middleware/limits.ts']) {
    const code = readFileSync(join(root, 'examples/nitro', file), 'utf8').replace(/^(\/\/.*\n)+/, '')
    expect(page).toContain(` ${file}\n${code}\`\`\``)
  }
})
