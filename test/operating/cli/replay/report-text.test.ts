import { describe, expect, test } from '@jest/globals'
import { EXAMPLE_LINE, reportAsText } from '../../../../src/operating/cli/replay/report-text.js'
import { logLine, TEN_O_CLOCK } from '../log-line.js'
import { type Replayed, replayed } from '../replayed.js'

const PAGE = { log: 'access.log', columns: 80, unicode: false }

/** Two clients for ten minutes, one of them four times as fast. */
const LINES = Array.from({ length: 500 }, (_, i) =>
  logLine({ client: i % 5 === 0 ? '192.0.2.1' : '192.0.2.2', at: TEN_O_CLOCK + Math.floor(i * 1.2) }),
)

const textOf = (lines: readonly string[], options?: Replayed, page = PAGE) =>
  reportAsText(replayed(lines, options), page)

test('the report on one policy', () => {
  expect(
    textOf(LINES, { policies: ['20/1m'] }),
  ).toBe(`access.log: 500 requests by 2 keys (--by ip), 2015-05-17 10:00:00 to 2015-05-17 10:09:58 UTC

policy  allowed  denied          keys denied
20/1m       300     200  40.0 %       1 of 2

Keys refused most
denied  requests  key
   200       400  192.0.2.2
     0       100  192.0.2.1

Timeline, a row for every 20s: - allowed  # denied
from (UTC)           requests  denied
2015-05-17 10:00:00        17       0  -----------------------------------------
2015-05-17 10:00:20        17       7  ------------------------#################
2015-05-17 10:00:40        16      13  -------################################
${Array.from({ length: 9 }, (_, i) => {
  const minute = `2015-05-17 10:0${i + 1}`
  return `${minute}:00        17       0  -----------------------------------------
${minute}:20        17       7  ------------------------#################
${minute}:40        16      13  -------################################`
}).join('\n')}
`)
})

test('the report on several sets them side by side', () => {
  const text = textOf(LINES, { policies: ['20/1m', '1000/1h'], top: 1 })
  expect(text).toContain(`
policy     allowed  denied          keys denied
A 20/1m        300     200  40.0 %       1 of 2
B 1000/1h      500       0     0 %       0 of 2

Keys refused most
denied A  denied B  requests  key
     200         0       400  192.0.2.2
`)
  expect(text).toContain('from (UTC)           requests  denied A                 denied B')
})

test('bars are drawn in blocks where the terminal knows them', () => {
  expect(textOf(LINES, { policies: ['20/1m'] }, { ...PAGE, unicode: true })).toContain(
    '17       7  ░░░░░░░░░░░░░░░░░░░░░░░░█████████████████\n',
  )
})

test('no line is wider than the terminal', () => {
  const lines = LINES.map((line, i) => `${line} "-" "${'agent '.repeat(40)}${i % 3}"`)
  for (const policies of [['5/1m'], ['5/1m', '50/1m']]) {
    for (const columns of [60, 80, 120, 200].slice(policies.length - 1)) {
      const text = textOf(lines, { policies, by: 'agent' }, { ...PAGE, columns })
      const [, ...tables] = text.split('\n\n')
      for (const line of tables.join('\n').split('\n')) expect(line.length).toBeLessThanOrEqual(columns)
    }
  }
})

test('one refusal in ten thousand is still visible', () => {
  const lines = Array.from({ length: 10_001 }, () => logLine())
  const text = textOf(lines, { policies: ['10000/1m'] })
  expect(text).toContain(' 1  <0.1 %')
  expect(text).toMatch(/-#$/m)
})

test('if nothing is refused, the busiest keys are named', () => {
  expect(textOf(LINES, { policies: ['1000/1m'] })).toContain(
    'No request would have been refused. The busiest keys\ndenied  requests  key\n     0       400',
  )
})

test('spans without requests are left out and marked', () => {
  const text = textOf([logLine(), logLine({ at: TEN_O_CLOCK + 90 })])
  expect(text).toMatch(/10:00:00 .*\n\.\.\.\n2015-05-17 10:01:30 /)
})

describe('the report names oddities of the log:', () => {
  test('lines out of order', () => {
    const lines = [logLine({ at: TEN_O_CLOCK + 1 }), logLine()]
    expect(textOf(lines)).toContain(
      'Out of order: 1 line, earlier than the line before; the whole log was sorted by time.\n',
    )
  })

  test('a log too long to be sorted as a whole', () => {
    const lines = [...LINES, logLine()]
    expect(textOf(lines, { heldLines: 64 })).toContain(
      'Out of order: 1 line, earlier than the line before; too many to hold, so each was sorted by time among the next 32.\n' +
        'Later still: 1 line, counted at the time reached by then.\n',
    )
  })

  test('lines skipped, with the first of them made harmless', () => {
    const lines = ['x'.repeat(5000), logLine(), '\x1b[2Jjunk', '']
    expect(textOf(lines)).toContain(
      'Skipped: 3 lines that hold no request, 1 of them too long for a line of a log; the first is line 3: \\x1b[2Jjunk\n',
    )
  })

  test('requests without a key', () => {
    expect(textOf([logLine(), logLine({ user: 'ann' })], { by: 'user' })).toContain(
      'Without user: 1 request, under no limit and counted as allowed.\n',
    )
  })

  test('that it is empty', () => {
    expect(textOf([]).split('\n')[0]).toBe('access.log holds no request in common or combined format.')
    expect(reportAsText(replayed(Buffer.alloc(0)), PAGE)).toBe(
      `access.log is empty: there is nothing to replay.\nExpected an access log in common or combined format, with lines like:\n  ${EXAMPLE_LINE}\n`,
    )
  })

  test('that nothing in it is a request', () => {
    expect(textOf(['{"level":"info"}', 'x'])).toBe(
      `access.log holds no request in common or combined format.\nSkipped: 2 lines that hold no request; the first is line 1: {"level":"info"}\n` +
        `Expected an access log in common or combined format, with lines like:\n  ${EXAMPLE_LINE}\n`,
    )
  })
})

test('the line given as an example is one', () => {
  expect(replayed([EXAMPLE_LINE]).requests).toBe(1)
})

test('virtual hosts before the clients are told, in a log of both forms', () => {
  const host = Array.from({ length: 12 }, (_, i) => `www.example.com:443 ${logLine({ client: `198.51.100.${i % 2}` })}`)
  const text = textOf([...host, logLine(), logLine()])
  expect(text).toMatch(/^access\.log: 14 requests by 3 keys/)
  expect(text).toContain('\nWith a virtual host before the client: 12 requests.\n')
  expect(text).not.toContain('www.example.com')
})
