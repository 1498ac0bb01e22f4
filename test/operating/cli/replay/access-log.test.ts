import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { AccessLogLine } from '../../../../src/operating/cli/replay/access-log.js'
import { ofCases } from '../../../support/cases.js'
import { logLine, TEN_O_CLOCK } from '../log-line.js'

/** The bytes after a line in its block: the next line or, if a line was joined from two blocks, anything. */
const AFTER = [
  '\n"198.51.100.2" - "after" [17/May/2015:10:00:00 +0000] "POST /after HTTP/1.1" 200 1 "r" "after"\n',
  '- "r" "stale"',
  '99 "r"',
  '"s"',
]

/** The line in the middle of a block, so that whatever is read beyond its ends shows. */
function read(text: string | Buffer, after = AFTER[0]): AccessLogLine | undefined {
  const line = new AccessLogLine()
  const before = Buffer.from('198.51.100.1 - bob [x] "POST /before HTTP/1.1" 200 1 "r" "before"\n')
  const bytes = Buffer.from(text as string)
  const found = line.read(
    Buffer.concat([before, bytes, Buffer.from(after)]),
    before.length,
    before.length + bytes.length,
  )
  return found ? line : undefined
}

const parts = (line: AccessLogLine | undefined) =>
  line && [line.client(), line.user(), line.method(), line.path(), line.agent()]

test('combined format has five parts', () => {
  const line = read(
    logLine({ user: 'frank', request: 'GET /a?b=c HTTP/1.1', tail: ' "http://example.com/" "Mozilla/5.0 (X11)"' }),
  )
  expect(parts(line)).toEqual(['203.0.113.7', 'frank', 'GET', '/a', 'Mozilla/5.0 (X11)'])
  expect(line?.second).toBe(TEN_O_CLOCK)
})

test('common format has no agent', () => {
  expect(parts(read(logLine()))).toEqual(['203.0.113.7', undefined, 'GET', '/', undefined])
})

describe('a client is the first word', () => {
  test.each(['203.0.113.7', '2001:db8::1', '::ffff:203.0.113.7', 'crawl-66-249.example.com', 'unix:'])('%s', client => {
    expect(read(logLine({ client }))?.client()).toBe(client)
  })

  test('and a dash means no client', () => {
    expect(read(logLine({ client: '-' }))?.client()).toBeUndefined()
  })
})

// [words before the time, client, user, why]
const hosts: Array<[string, string, string | undefined, string]> = [
  ['www.example.com:443 198.51.100.1 - -', '198.51.100.1', undefined, 'vhost_combined'],
  ['www.example.com:443 2001:db8::1 - frank', '2001:db8::1', 'frank', 'vhost_combined over IPv6'],
  ['[2001:db8::9]:443 198.51.100.1 - -', '198.51.100.1', undefined, 'a host that is an address'],
  ['www.example.com 198.51.100.1 - -', '198.51.100.1', undefined, 'a host without its port'],
  [
    'www.example.com:80 crawl.example.net - Frank N. Furter',
    'crawl.example.net',
    'Frank N. Furter',
    'a client with a name',
  ],
  ['www.example.com:80 - - frank', 'www.example.com:80', '- frank', 'no client after it: a user with a space'],
  ['203.0.113.7:50123 - -', '203.0.113.7:50123', undefined, 'a client with its port'],
  ['203.0.113.7 frank_s_ident frank', '203.0.113.7', 'frank', 'a client with an ident'],
  ['203.0.113.7 ident Frank - Furter', '203.0.113.7', 'Frank - Furter', 'an ident and a user with spaces'],
  ['203.0.113.7 - 198.51.100.1 - -', '203.0.113.7', '198.51.100.1 - -', 'a client that calls itself an address'],
  ['203.0.113.7 198.51.100.1 frank', '203.0.113.7', 'frank', 'an ident that is an address'],
]

test.each(hosts)('%s: the client is %s, the user %s (%s)', (words, client, user) => {
  const line = read(`${words} [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 512`)
  expect([line?.client(), line?.user(), line?.hasHost]).toEqual([client, user, !words.startsWith(client)])
})

test('a byte order mark before a line is not part of the client', () => {
  const line = read(Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(logLine())]))
  expect(parts(line)).toEqual(['203.0.113.7', undefined, 'GET', '/', undefined])
})

// [as logged, user]
const users: Array<[string, string | undefined]> = [
  ['-', undefined],
  ['""', undefined],
  ['frank', 'frank'],
  ['Frank N. Furter', 'Frank N. Furter'],
  ['- -', '- -'],
  ['a [b', 'a [b'],
  ['[x] "y', '[x] "y'],
  ['\\"q\\"', '"q"'],
  ['j\\xc3\\xb6rg', 'jörg'],
  ['jörg', 'jörg'],
]

test.each(users)('the user of %s is %s', (user, expected) => {
  expect(read(logLine({ user }))?.user()).toBe(expected)
})

test('a time that a client puts into its request is not the time of the line', () => {
  const request = 'GET /[18/May/2015:10:00:00 +0000] "GET /x HTTP/1.1'
  expect(read(logLine({ request }))?.second).toBe(TEN_O_CLOCK)
})

// [request as logged, method, path, why]
const requests: Array<[string, string | undefined, string | undefined, string]> = [
  ['GET /a/b HTTP/1.1', 'GET', '/a/b', 'as most are'],
  ['GET /a?b=/c HTTP/1.1', 'GET', '/a', 'the query is no part of the path'],
  ['GET /a#b HTTP/1.1', 'GET', '/a', 'nor is what no client should send'],
  ['GET /? HTTP/1.1', 'GET', '/', 'an empty query'],
  ['GET /a', 'GET', '/a', 'HTTP/0.9'],
  ['GET /a b c HTTP/1.1', 'GET', '/a b c', 'spaces in a path, as nginx logs them'],
  ['GET /a HTTP/ b HTTP/2.0', 'GET', '/a HTTP/ b', 'the last version is the version'],
  ['GET http://example.com/a?b HTTP/1.1', 'GET', '/a', 'a proxy is sent the whole URL'],
  ['GET http://example.com HTTP/1.1', 'GET', '/', 'without a path'],
  ['GET http://example.com?a=/b HTTP/1.1', 'GET', '/', 'without a path, with a query'],
  ['OPTIONS * HTTP/1.1', 'OPTIONS', '*', 'the whole server'],
  ['CONNECT example.com:443 HTTP/1.1', 'CONNECT', undefined, 'a tunnel has no path'],
  ['M-SEARCH /a HTTP/1.1', 'M-SEARCH', '/a', 'methods are tokens'],
  ['GET /a\\"b\\\\c\\x22d HTTP/1.1', 'GET', '/a"b\\c"d', 'what servers escape is undone'],
  ['GET /a"b HTTP/1.1', 'GET', '/a"b', 'what others should have escaped is borne'],
  ['GET /a" 200 x HTTP/1.1', 'GET', '/a" 200 x', 'even with a number behind it'],
  ['-', undefined, undefined, 'a client that said nothing'],
  ['', undefined, undefined, 'nothing at all'],
  ['\\x16\\x03\\x01\\x02', undefined, undefined, 'TLS to a plain port'],
  ['GET', undefined, undefined, 'no target'],
  ['GET  HTTP/1.1', 'GET', undefined, 'an empty target'],
]

test.each(requests)('"%s" is %s of %s: %s', (request, method, path) => {
  const line = read(logLine({ request }))
  expect([line?.client(), line?.method(), line?.path()]).toEqual(['203.0.113.7', method, path])
})

// [what follows the size, agent, why]
const tails: Array<[string, string | undefined, string]> = [
  [' "-" "curl/8"', 'curl/8', 'no referer'],
  [' "http://a/?q=\\"x\\"" "a \\"b\\" \\\\c"', 'a "b" \\c', 'escaped quotes'],
  [' "-" "a\\tb\\n"', 'a\tb\n', 'escaped letters'],
  [' "-" "-"', undefined, 'a client that does not say'],
  [' "-" ""', undefined, 'a client that says nothing'],
  [' "-" "curl/8" "203.0.113.9" 0.003', 'curl/8', 'more fields behind'],
  [' 0.003', undefined, 'other fields'],
  [' "-"', undefined, 'cut off'],
  [' "-" "', undefined, 'cut off before the agent'],
  [' "-" "Mozilla/5.0 (comp', 'Mozilla/5.0 (comp', 'cut off in the agent'],
  [' "-" "a\\', 'a\\', 'cut off in an escape'],
  [' "http://exam', undefined, 'cut off in the referer'],
  [' "-" "\\xff\\xfe"', 'ÿþ', 'no UTF-8'],
]

test.each(tails)('with%s the agent is %s: %s', (tail, agent) => {
  expect(read(logLine({ tail }))?.agent()).toBe(agent)
})

describe('these are no requests:', () => {
  test.each([
    '',
    ' ',
    '203.0.113.7',
    '203.0.113.7 - -',
    'Nov 21 03:28:25 host kernel: [12.3] oops',
    ' - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 512',
    '203.0.113.7 - - [17/May/2015:10:00:00] "GET / HTTP/1.1" 200 512',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000]',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] ',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1"',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 ',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 x',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 20 512',
    '203.0.113.7 - - [17/May/2015:10:00:00 +0000] GET / HTTP/1.1 200 512',
    '\0\0\x103.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 512',
    '203.0\x7f.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 512',
    'höst - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 512',
    '\x1b[31m203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 512',
  ])('%j', text => {
    for (const after of AFTER) expect(read(text, after)).toBeUndefined()
  })
})

test('a status and a size may be unknown', () => {
  expect(read('203.0.113.7 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" - -')?.path()).toBe('/')
})

test('the meaning of a line depends on no other line', () => {
  const bytes = fc.oneof(fc.uint8Array({ maxLength: 120 }), cutAndSpoilt())
  fc.assert(
    fc.property(bytes, fc.constantFrom(...AFTER), (array, after) => {
      const inside = read(Buffer.from(array), after)
      const line = new AccessLogLine()
      const alone = line.read(Buffer.from(array), 0, array.length) ? line : undefined
      expect(parts(inside)).toEqual(parts(alone))
      expect(inside?.second).toBe(alone?.second)
    }),
    { numRuns: ofCases(2000) },
  )
})

/** Lines with a valid beginning, because a parser rejects pure noise early. */
function cutAndSpoilt(): fc.Arbitrary<Uint8Array> {
  const whole = Buffer.from(
    logLine({ user: 'a [b', request: 'GET http://a\\x22/b?c HTTP/1.1', tail: ' "r\\"" "\\xe4g"' }),
  )
  return fc
    .tuple(
      fc.nat(whole.length),
      fc.nat(whole.length - 1),
      fc.constantFrom(...Buffer.from('\\" []-H/x\0\xff', 'latin1')),
    )
    .map(([length, at, byte]) => {
      const line = Uint8Array.from(whole)
      line[at] = byte
      return line.subarray(0, length)
    })
}
