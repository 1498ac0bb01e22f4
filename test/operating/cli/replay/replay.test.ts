import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { TooManyKeysError } from '../../../../src/operating/cli/replay/ranking.js'
import { reportAsJson } from '../../../../src/operating/cli/replay/report-files.js'
import { reportAsText } from '../../../../src/operating/cli/replay/report-text.js'
import { ofCases } from '../../../support/cases.js'
import { runChild } from '../../../support/child.js'
import { logLine, TEN_O_CLOCK } from '../log-line.js'
import { replayed } from '../replayed.js'

/**
 * 475 lines in the combined format, as a shop would have them: visitors with their pictures and scripts, a crawler that
 * asks every three seconds for three minutes, 45 guesses of a password in 15 seconds, a monitor, a line cut off and one
 * of no request. A line is written when its request has ended, so 35 stand behind a later one. Denials were counted by
 * hand.
 */
const ACCESS_LOG = readFileSync(join(__dirname, 'access.log'))

describe('the log of a shop', () => {
  test('10/1m by ip denies 65 of 473 requests: 35 guesses of a password, and 30 of the crawler', () => {
    const { requests, skipped, keys, trials } = replayed(ACCESS_LOG)
    expect([requests, skipped.lines, keys]).toEqual([473, 2, 45])
    expect(trials.map(({ denied, deniedKeys }) => [denied, deniedKeys])).toEqual([[65, 2]])
    expect(trials[0].top.slice(0, 2)).toMatchObject([
      { key: '192.0.2.200', denied: [35] },
      { key: '192.0.2.66', denied: [30] },
    ])
  })

  test('10/1m by path denies 35 requests for the login; 20/1m by ip denies 25 guesses and nothing else', () => {
    const [byPath] = replayed(ACCESS_LOG, { by: 'path' }).trials
    expect(byPath.top[0]).toMatchObject({ key: '/login', denied: [35] })
    const [byIp] = replayed(ACCESS_LOG, { policies: ['20/1m'] }).trials
    expect([byIp.denied, byIp.deniedKeys, byIp.top[0].key]).toEqual([25, 1, '192.0.2.200'])
  })

  test('was out of order, and was sorted as a whole', () => {
    expect(replayed(ACCESS_LOG).order).toMatchObject({ outOfOrder: 35, sorted: 'whole', late: 0 })
  })
})

/**
 * `requests`: client and second. At most `quota` in any span of `windowS`, told by counting what was granted before.
 */
function countedByHand(requests: ReadonlyArray<readonly [string, number]>, quota: number, windowS: number) {
  const granted = new Map<string, number[]>()
  const denied = new Map<string, number>()
  for (const [client, second] of [...requests].sort((a, b) => a[1] - b[1])) {
    const before = granted.get(client) ?? []
    granted.set(client, before)
    if (before.filter(at => at > second - windowS).length < quota) before.push(second)
    else denied.set(client, (denied.get(client) ?? 0) + 1)
  }
  return denied
}

test('a random log in any order is judged as counting by hand would', () => {
  const request = fc.tuple(fc.constantFrom('192.0.2.1', '192.0.2.2', '192.0.2.3'), fc.nat(200))
  fc.assert(
    fc.property(
      fc.array(request, { maxLength: 120, size: 'max' }),
      fc.integer({ min: 1, max: 6 }),
      (requests, quota) => {
        const report = replayed(
          requests.map(([client, at]) => logLine({ client, at: TEN_O_CLOCK + at })),
          { policies: [`${quota}/1m`] },
        )
        const denied = countedByHand(requests, quota, 60)
        expect(report.requests).toBe(requests.length)
        expect(report.keys).toBe(new Set(requests.map(([client]) => client)).size)
        expect(report.trials[0].deniedKeys).toBe(denied.size)
        expect(report.trials[0].denied).toBe([...denied.values()].reduce((sum, n) => sum + n, 0))
        for (const {
          key,
          denied: [count],
        } of report.top)
          expect(count).toBe(denied.get(key) ?? 0)
      },
    ),
  )
})

test('several policies in one run get the same results as each alone', () => {
  const lines = Array.from({ length: 400 }, (_, i) =>
    logLine({ client: `192.0.2.${i % 7}`, at: TEN_O_CLOCK + ((i * 37) % 300) }),
  )
  const policies = ['3/1m', '2/10s;20/5m', '3/1m fixed-window', '5/1m token-bucket burst=2', '0/1m']
  const together = replayed(lines, { policies })
  const alone = policies.map(policy => replayed(lines, { policies: [policy] }))
  expect(together.trials).toEqual(alone.map(({ trials }) => trials[0]))
  expect(together.trials.at(-1)?.denied).toBe(400)
  together.timeline.rows.forEach((row, i) => {
    expect(row.denied).toEqual(alone.map(({ timeline }) => timeline.rows[i].denied[0]))
  })
})

describe('a key is', () => {
  const lines = [
    logLine({ client: '::ffff:192.0.2.1', user: 'ann', request: 'GET /a?x HTTP/1.1', tail: ' "-" "one"' }),
    logLine({ client: '192.0.2.1', user: 'ann', request: 'HEAD /a HTTP/1.1', tail: ' "-" "one"' }),
    logLine({ client: '2001:db8:0:1::1', user: '-', request: '-', tail: ' "-" "-"' }),
    logLine({ client: '2001:DB8::2', user: 'B Ob', request: 'GET /b HTTP/1.1', tail: ' "-" "two"' }),
  ]

  // [by, keys and their requests, requests without a key]
  test.each([
    ['ip', { '192.0.2.1': 2, '2001:db8::/56': 2 }, 0],
    ['path', { '/a': 2, '/b': 1 }, 1],
    ['method', { GET: 2, HEAD: 1 }, 1],
    ['user', { ann: 2, 'B Ob': 1 }, 1],
    ['agent', { one: 2, two: 1 }, 1],
  ] as const)('what --by %s says', (by, keys, withoutKey) => {
    const report = replayed(lines, { by, policies: ['0/1m'] })
    expect(Object.fromEntries(report.top.map(({ key, requests }) => [key, requests]))).toEqual(keys)
    expect([report.requests, report.withoutKey, report.trials[0].denied]).toEqual([4, withoutKey, 4 - withoutKey])
  })

  test('a whole IPv6 address where the subnet is 128 or false', () => {
    expect(replayed(lines, { ipv6Subnet: 128 }).keys).toBe(3)
    expect(replayed(lines, { ipv6Subnet: false }).keys).toBe(3)
  })
})

test('a log too long to hold is sorted within a window, and the report says so', () => {
  const lines = Array.from({ length: 100 }, (_, i) => logLine({ at: TEN_O_CLOCK + i - (i % 5 === 4 ? 6 : 0) }))
  lines.push(logLine({ at: TEN_O_CLOCK }))
  const { order, from, to } = replayed(lines, { heldLines: 16 })
  expect(order).toEqual({ outOfOrder: 21, sorted: 'window', windowLines: 8, late: 1 })
  expect([from, to]).toEqual([TEN_O_CLOCK - 2, TEN_O_CLOCK + 98])
})

test('a line that came too late is counted at the time reached, and no client is allowed more', () => {
  const burst = (at: number) => Array.from({ length: 20 }, () => logLine({ at }))
  const { order, trials } = replayed([...burst(TEN_O_CLOCK + 30), ...burst(TEN_O_CLOCK + 90), ...burst(TEN_O_CLOCK)], {
    heldLines: 8,
  })
  expect(order.late).toBe(20)
  expect(trials[0].denied).toBe(60 - 10 - 10)
})

test('too many keys end the replay, and earlier counts stay valid', () => {
  const lines = Array.from({ length: 5 }, (_, i) => logLine({ client: `192.0.2.${i}` }))
  expect(() => replayed(lines, { mostKeys: 4 })).toThrow(TooManyKeysError)
  expect(replayed(lines, { mostKeys: 5 }).keys).toBe(5)
})

describe('hostile lines', () => {
  const PAGE = { log: 'a\x1blog', columns: 80, unicode: true }
  const junk = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes)),
    fc.constantFrom(
      Buffer.from('\x1b]0;owned\x07'),
      Buffer.alloc(5000, 0),
      Buffer.alloc(5000, 'x'),
      Buffer.from(logLine({ request: 'GET /\x1b[2J\x9b\u202e HTTP/1.1', tail: ' "-" "\x1b[2J\\x1b[2J\xff"' })),
      Buffer.from(logLine({ user: '\x1b[31m\\x9b\\n' })),
    ),
  )

  test('are counted, change nothing else, and no control character reaches the report', () => {
    fc.assert(
      fc.property(
        fc.array(junk, { maxLength: 12 }),
        fc.constantFrom('ip', 'path', 'method', 'user', 'agent'),
        (blocks, by) => {
          const lines = blocks.flatMap(block => [block, Buffer.from('\n')])
          const report = replayed(Buffer.concat(lines), { by, policies: ['0/1m'] })
          const newlines = Buffer.concat(lines).filter(byte => byte === 10).length
          expect(report.requests + report.skipped.lines).toBe(newlines)
          for (const text of [reportAsText(report, PAGE), reportAsJson(report)]) {
            expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u)
          }
        },
      ),
      { numRuns: ofCases(300) },
    )
  })

  test('between good lines leave the good ones as they are', () => {
    const good = Array.from({ length: 30 }, (_, i) => Buffer.from(logLine({ at: TEN_O_CLOCK + i })))
    const bad = fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes.filter(byte => byte !== 10)))
    const expected = replayed(Buffer.concat(good.flatMap(line => [line, Buffer.from('\n')])))
    fc.assert(
      fc.property(fc.array(bad, { minLength: 30, maxLength: 30 }), noise => {
        const lines = good.flatMap((line, i) => [noise[i], Buffer.from('\n'), line, Buffer.from('\n')])
        const { skipped, ...rest } = replayed(Buffer.concat(lines))
        expect(skipped.lines).toBe(30)
        expect(rest).toEqual({ ...expected, skipped: undefined })
      }),
      { numRuns: ofCases(50) },
    )
  })
})

describe('a long path', () => {
  const lineOf = (path: string, at = TEN_O_CLOCK) => logLine({ request: `GET ${path} HTTP/1.1`, at })

  test('is counted as itself, and named by its beginning and a hash', () => {
    const common = `/${'a'.repeat(1500)}`
    const log = [0, 1, 2, 3].flatMap(() => [lineOf(`${common}/1`), lineOf(`${common}/2`), lineOf('/short')])
    const { keys, trials } = replayed(log, { by: 'path', policies: ['3/1m'] })
    expect([keys, trials[0].denied, trials[0].deniedKeys]).toEqual([3, 3, 3])
    const names = trials[0].top.map(({ key }) => key)
    expect(names).toContain('/short')
    const long = names.filter(name => name !== '/short')
    for (const name of long) expect(name).toMatch(/^\/a{159}\.\.\.#[\w-]{43}$/)
    expect(new Set(long).size).toBe(2)
  })

  test('costs no more memory than a short one: 30 MB of distinct paths fit into 24 MB', async () => {
    const { stdout, stderr, code } = await runChild(
      `import { Replay } from './src/operating/cli/replay/replay.ts'
       import { parsePolicy } from './src/limiter/core/limit.ts'
       const replay = new Replay({ by: 'path', ipv6Subnet: 56, top: 1, policies: [{ text: '1/1m', policy: parsePolicy('1/1m') }] })
       for (let i = 0; i < 300; i++) {
         const line = Buffer.from(\`192.0.2.1 - - [17/May/2015:10:00:00 +0000] "GET /\${i}\${'x'.repeat(100_000)} HTTP/1.1" 200 5\`)
         replay.line(line, 0, line.length)
       }
       console.log(replay.finish().keys)`,
      { flags: ['--max-old-space-size=24'], timeoutMs: 60_000 },
    )
    expect({ stdout, stderr, code }).toEqual({ stdout: '300\n', stderr: '', code: 0 })
  })
})
