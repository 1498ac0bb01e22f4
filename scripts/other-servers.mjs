#!/usr/bin/env node
// Runs the contracts of all clients on the other servers that Debian has: `npm run verify -- servers [name...]`. A
// server and the libraries that it needs are fetched by apt from Debian's own mirror, unpacked under
// node_modules/.cache/servers and run from there: nothing of this machine's system changes. Debian only.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'

/** The suites of Debian, and what each calls its server. */
const SERVERS = {
  'redis-8': { suite: 'trixie', program: 'redis-server' },
  'valkey-8': { suite: 'trixie', program: 'valkey-server' },
  'valkey-9': { suite: 'sid', program: 'valkey-server' },
}
const CACHE = resolve('node_modules/.cache/servers')
const CONTRACTS = ['--selectProjects', 'clients']

/**
 * @param {string} program
 * @param {readonly string[]} args
 */
function run(program, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', ...options })
  if (status === 0) return stdout
  throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? `exit code ${status}`}\n${stdout}${stderr}`)
}

/** The address of Debian's mirror here: apt knows it. */
function mirror() {
  const targets = run('apt-get', ['indextargets', '--format', '$(REPO_URI)', 'Origin: Debian', 'Created-By: Packages'])
  const found = targets.split('\n').find(address => /\/debian\/?$/.test(address))
  if (found === undefined)
    throw new Error('apt knows no mirror of Debian here: this needs a Debian whose sources name one')
  return found
}

/**
 * Fetches a server with all that it needs into a folder, and writes a program there that starts it with its own
 * libraries.
 *
 * @param {string} name
 * @param {{ suite: string, program: string }} server
 */
function unpack(name, { suite, program }) {
  const folder = join(CACHE, name)
  if (existsSync(join(folder, 'bin'))) return folder
  rmSync(folder, { recursive: true, force: true })
  for (const sub of ['lists/partial', 'archives/partial', 'files', 'new'])
    mkdirSync(join(folder, sub), { recursive: true })
  const sources = join(folder, 'sources.list')
  const status = join(folder, 'status')
  writeFileSync(sources, `deb ${mirror()} ${suite} main\n`)
  // As if no package were installed: all that the server needs comes too, its C library first.
  writeFileSync(status, '')
  const settings = {
    'Dir::Etc::sourcelist': sources,
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::State::lists': join(folder, 'lists'),
    'Dir::State::status': status,
    'Dir::Cache': folder,
    'APT::Install-Recommends': 'false',
    'APT::Sandbox::User': 'root',
    'Debug::NoLocking': 'true',
  }
  const options = Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`])
  run('apt-get', [...options, 'update'])
  run('apt-get', [...options, '-y', '--download-only', 'install', program])
  const archives = join(folder, 'archives')
  for (const file of readdirSync(archives)) {
    if (file.endsWith('.deb')) run('dpkg', ['--extract', join(archives, file), join(folder, 'files')])
  }
  for (const sub of ['lists', 'archives']) rmSync(join(folder, sub), { recursive: true })
  const start = join(folder, 'new', 'redis-server')
  writeFileSync(start, starter(join(folder, 'files'), program))
  chmodSync(start, 0o755)
  // Last, so that a folder that has it is whole.
  renameSync(join(folder, 'new'), join(folder, 'bin'))
  return folder
}

/** @param {string} files @param {string} program */
const starter = (files, program) => `#!/bin/sh
for loader in '${files}'/lib64/ld-linux-*.so.* '${files}'/usr/lib64/ld-linux-*.so.* '${files}'/usr/lib/ld-linux-*.so.* '${files}'/lib/ld-linux-*.so.* '${files}'/usr/lib/*-linux-gnu/ld-linux-*.so.*; do
  [ -e "$loader" ] && break
done
libraries=$(echo '${files}'/usr/lib/*-linux-gnu '${files}'/lib/*-linux-gnu | tr ' ' ':')
exec "$loader" --library-path "$libraries" '${files}/usr/bin/${program}' "$@"
`

const asked = process.argv.slice(2)
for (const name of asked) {
  if (name in SERVERS) continue
  console.error(
    `given ${name}, expected one of ${Object.keys(SERVERS).join(', ')}, like: npm run verify -- servers redis-8`,
  )
  process.exit(2)
}
const results = Object.entries(SERVERS)
  .filter(([name]) => asked.length === 0 || asked.includes(name))
  .map(([name, server]) => {
    const folder = unpack(name, server)
    const env = { ...process.env, PATH: [join(folder, 'bin'), process.env.PATH].join(delimiter) }
    console.log(`\n${name}: ${run('redis-server', ['--version'], { env }).trim()}`)
    return [
      name,
      spawnSync('npx', ['jest', ...CONTRACTS], { stdio: 'inherit', env }).status === 0 ? 'passed' : 'FAILED',
    ]
  })
console.log(`\n${results.map(line => line.join(': ')).join('\n')}`)
if (results.some(([, state]) => state !== 'passed')) process.exitCode = 1
