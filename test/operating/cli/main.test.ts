import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, jest, test } from '@jest/globals'
import { logLine, TEN_O_CLOCK } from './log-line.js'
import { commandFile, spawnSpillway } from './spawn-spillway.js'

// Each test starts processes that first compile TypeScript, on a machine that may be busy.
jest.setTimeout(60_000)

const ROOT = resolve(__dirname, '../../..')
const dir = mkdtempSync(join(tmpdir(), 'spillway-cli-'))
afterAll(() => rmSync(dir, { recursive: true }))

function fileOf(name: string, content: string | Buffer): string {
  const path = join(dir, name)
  writeFileSync(path, content)
  return path
}

const LOG = Array.from(
  { length: 100 },
  (_, i) => `${logLine({ client: `192.0.2.${i % 3}`, at: TEN_O_CLOCK + i })}\n`,
).join('')
const LOG_FILE = fileOf('access.log', LOG)
const POLICY = ['--policy', '10/1m']

test('--help, -h and --version', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const [help, h, number, replayHelp] = await Promise.all([
    spawnSpillway(['--help']),
    spawnSpillway(['-h']),
    spawnSpillway(['--version']),
    spawnSpillway(['replay', '-h']),
  ])
  expect(help).toMatchObject({ exitCode: 0, stderr: '' })
  expect(help.stdout).toMatch(
    /^Usage: spillway COMMAND.*\n\n {2}replay {4}computes from an access log what a policy would have refused/s,
  )
  expect(h).toEqual(help)
  expect(number).toEqual({ exitCode: 0, stdout: `${version}\n`, stderr: '' })
  expect(replayHelp.stdout).toMatch(/^Usage: spillway replay FILE --policy POLICY/)
})

// Only Linux has such a file.
const onLinux = process.platform === 'linux' ? test : test.skip
onLinux.each(['--help', '--version', 'replay --help'])('%s into a full disk ends with one line', async args => {
  const full = openSync('/dev/full', 'w')
  const stdio = ['ignore', full, 'pipe'] as const
  const { status, stderr } = spawnSync(process.execPath, [commandFile(), ...args.split(' ')], { stdio: [...stdio] })
  closeSync(full)
  expect([status, String(stderr)]).toEqual([1, expect.stringMatching(/^spillway.*: cannot write the output: .*\n$/)])
})

test('the command of the build tells the version inside the repository too', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const { stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'dist/cli.js'), '--version'], { encoding: 'utf8' })
  expect([stdout, stderr]).toEqual([`${version}\n`, ''])
})

describe('wrong arguments exit with 2, unreadable files with 1, each with one line:', () => {
  test.each<[string[], number, string]>([
    [
      [],
      2,
      'spillway: given no command, expected replay, doctor, dashboard, sql, migrate, demo, --help or --version, like: spillway --help\n',
    ],
    [['constructor'], 2, 'spillway: unknown command "constructor", expected replay,'],
    [['\x1b[31m'], 2, 'spillway: unknown command "\\u001b[31m", expected replay,'],
    [['replay', LOG_FILE], 2, 'spillway replay: given no --policy, expected'],
    [['replay', LOG_FILE, '--policy', '10/min'], 2, 'spillway replay: limit "10/min":'],
    [['replay', LOG_FILE, ...POLICY, '--html', LOG_FILE], 2, 'spillway replay: --html: given the log itself, expected'],
    [['replay', LOG_FILE, ...POLICY, '--html', dir], 1, 'spillway replay: cannot write "'],
    [['replay', join(dir, 'none\x1b'), ...POLICY], 1, 'spillway replay: cannot read "'],
    [
      ['replay', dir, ...POLICY],
      1,
      `spillway replay: cannot read "${dir}": it is a directory; expected an access log, like`,
    ],
  ])('%j', async (args, exitCode, message) => {
    const spawned = await spawnSpillway(args)
    expect(spawned).toMatchObject({ exitCode, stdout: '' })
    expect(spawned.stderr).toContain(message)
    expect(spawned.stderr).toMatch(/^[ -~≥]+\n$/)
  })
})

test('--json prints one object, of several policies a list', async () => {
  const [one, two] = await Promise.all([
    spawnSpillway(['replay', LOG_FILE, ...POLICY, '--json', '--top', '2']),
    spawnSpillway(['replay', LOG_FILE, ...POLICY, '--policy', '0/1m', '--json', '--top', '1']),
  ])
  expect(one).toMatchObject({ exitCode: 0, stderr: '' })
  expect(JSON.parse(one.stdout)).toMatchObject({
    policy: '10/1m',
    by: 'ip',
    complete: true,
    requests: 100,
    skipped: 0,
    allowed: 60,
    denied: 40,
    keys: 3,
    deniedKeys: 3,
    withoutKey: 0,
    from: '2015-05-17T10:00:00Z',
    to: '2015-05-17T10:01:39Z',
    top: [
      { key: '192.0.2.0', requests: 34, denied: 14 },
      { key: '192.0.2.1', requests: 33, denied: 13 },
    ],
  })
  const list = JSON.parse(two.stdout)
  expect(list).toHaveLength(2)
  expect(list[0]).toMatchObject({ policy: '10/1m', denied: 40, top: [{ key: '192.0.2.0', requests: 34, denied: 14 }] })
  expect(list[1]).toMatchObject({ policy: '0/1m', denied: 100, top: [{ key: '192.0.2.0', requests: 34, denied: 34 }] })
})

test('--html writes a page in addition to the text, also of the lines before a fault', async () => {
  const page = join(dir, 'report.html')
  const told = await spawnSpillway(['replay', LOG_FILE, ...POLICY, '--html', page])
  expect(told).toEqual(await spawnSpillway(['replay', LOG_FILE, ...POLICY]))
  expect(readFileSync(page, 'utf8')).toMatch(/^<!doctype html>[\s\S]*"requests":100,[\s\S]*<\/html>\n$/)
  const cut = fileOf('cut.gz', gzipSync(LOG).subarray(0, 200))
  expect((await spawnSpillway(['replay', cut, ...POLICY, '--html', page])).exitCode).toBe(1)
  expect(readFileSync(page, 'utf8')).toContain('Only a part: the reading ended before the log did.')
})

describe('a log without a request exits with 1, prints nothing but one line, and leaves no page', () => {
  test.each([
    [
      '{"level":30,"time":1700000000}\n{"level":30}\n',
      'holds no request: line 1 is {"level":30,"time":1700000000}; expected',
    ],
    [`${'x'.repeat(200_000)}\n`, 'holds no request: all lines are too long; expected'],
    ['\xff\xfea\0b\0', 'is UTF-16: expected UTF-8 or ASCII, like: iconv -f UTF-16 -t UTF-8 FILE | spillway replay -'],
    ['\x1f\x8bdamaged', 'to its end: its gzip data is damaged'],
  ])('%#', async (content, message) => {
    const path = fileOf('unreadable.log', Buffer.from(content, 'latin1'))
    const page = join(dir, 'unreadable.html')
    const [text, json] = await Promise.all([
      spawnSpillway(['replay', path, ...POLICY, '--html', page]),
      spawnSpillway(['replay', path, ...POLICY, '--json']),
    ])
    expect(text).toMatchObject({ exitCode: 1, stdout: '' })
    expect(text.stderr).toContain(message)
    expect(text.stderr).toMatch(/^spillway replay: .*\n$/)
    expect(json).toEqual(text)
    expect(existsSync(page)).toBe(false)
  })
})

describe('reads a log', () => {
  const zipped = Buffer.concat([gzipSync(LOG.slice(0, 3000)), gzipSync(LOG.slice(3000))])

  test('as text and zipped, from a file of any name and from standard input, with the same report', async () => {
    const args = [...POLICY, '--json']
    const spawned = await Promise.all([
      spawnSpillway(['replay', LOG_FILE, ...args]),
      spawnSpillway(['replay', fileOf('access.log.gz', zipped), ...args]),
      spawnSpillway(['replay', fileOf('zipped.log', zipped), ...args]),
      spawnSpillway(['replay', fileOf('text.gz', LOG), ...args]),
      spawnSpillway(['replay', '-', ...args], { with: child => child.stdin.end(LOG) }),
      spawnSpillway(['replay', '-', ...args], { with: child => child.stdin.end(zipped) }),
    ])
    expect(spawned[0].exitCode).toBe(0)
    for (const one of spawned) expect(one).toEqual(spawned[0])
  })

  test('that is cut off in the middle of its gzip data: reports the readable part, then the fault', async () => {
    const path = fileOf('cut.gz', zipped.subarray(0, zipped.length - 100))
    const { exitCode, stdout, stderr } = await spawnSpillway(['replay', path, ...POLICY])
    expect([exitCode, stderr]).toEqual([
      1,
      `spillway replay: cannot read "${path}" to its end: its gzip data ends too early\n`,
    ])
    expect(stdout).toContain('Only a part: the reading ended before the log did.')
  })

  test('that has another compression: says how to read it', async () => {
    const zstd = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3, 4])
    const path = fileOf('access.log.zst', zstd)
    const { exitCode, stderr } = await spawnSpillway(['replay', path, ...POLICY])
    expect([exitCode, stderr]).toEqual([
      1,
      `spillway replay: "${path}" is compressed with zstd: expected text or gzip, like: zstd -dc FILE | spillway replay -\n`,
    ])
    // The input never ends: the command does not wait for the rest of an unreadable log.
    const piped = await spawnSpillway(['replay', '-', ...POLICY], { with: child => child.stdin.write(zstd) })
    expect(piped).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('"standard input" is compressed with zstd'),
    })
  })

  test('that is empty', async () => {
    const [text, json] = await Promise.all([
      spawnSpillway(['replay', '-', ...POLICY]),
      spawnSpillway(['replay', fileOf('empty', ''), ...POLICY, '--json']),
    ])
    expect(text).toMatchObject({ exitCode: 1, stderr: '' })
    expect(json.exitCode).toBe(1)
    expect(text.stdout).toMatch(
      /^standard input is empty: there is nothing to replay\.\nExpected an access log in common or combined/,
    )
    expect(JSON.parse(json.stdout)).toMatchObject({
      requests: 0,
      skipped: 0,
      allowed: 0,
      denied: 0,
      keys: 0,
      top: [],
      from: null,
    })
  })
})

test('Ctrl-C ends the reading and prints the report so far', async () => {
  const copies = 500
  const { exitCode, stdout } = await spawnSpillway(['replay', '-', ...POLICY, '--json'], {
    // More than fits into a pipe, so most of it has been read once it is written. The input never ends, so only the
    // signal ends the command.
    with: child => child.stdin.write(LOG.repeat(copies), () => child.kill('SIGINT')),
  })
  expect(exitCode).toBe(130)
  const { complete, requests, allowed, denied } = JSON.parse(stdout)
  expect(complete).toBe(false)
  expect(requests).toBeGreaterThan(100)
  expect(allowed + denied).toBe(requests)
})

test('a closed pipe (`| head`) is no error', async () => {
  const { exitCode, stderr } = await spawnSpillway(['replay', '-', ...POLICY, '--top', '5000'], {
    with: child => {
      child.stdout.destroy()
      child.stdin.end(Array.from({ length: 5000 }, (_, i) => `${logLine({ client: `host-${i}` })}\n`).join(''))
    },
  })
  expect([exitCode, stderr]).toEqual([0, ''])
})
