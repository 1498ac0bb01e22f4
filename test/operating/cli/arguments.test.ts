import { describe, expect, test } from '@jest/globals'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { readArguments, UsageError } from '../../../src/operating/cli/arguments.js'
import { readReplayArguments, replayCommand } from '../../../src/operating/cli/replay/replay-command.js'

const found = (...args: string[]) => readArguments(args, replayCommand.options)
const read = (...args: string[]) => readReplayArguments(found(...args))

test('options that are not given have defaults', () => {
  const given = read('access.log', '--policy', '10/1m')
  expect(given).toMatchObject({ file: 'access.log', by: 'ip', top: 10, ipv6Subnet: 56, json: false })
  expect(given.policies.map(({ text, policy }) => [text, policy.length])).toEqual([['10/1m', 1]])
})

test('everything can be given, in any order', () => {
  const args = [
    '--json',
    '--by=path',
    '-',
    '--policy=10/1m;100/1h',
    '--top',
    '0',
    '--policy',
    '5/1s',
    '--ipv6-subnet',
    'false',
  ]
  const given = read(...args)
  expect(given).toMatchObject({ file: '-', by: 'path', top: 0, ipv6Subnet: false, json: true })
  expect(given.policies.map(({ policy }) => policy.length)).toEqual([2, 1])
})

test('a file may begin with a dash behind --', () => {
  expect(read('--policy', '10/1m', '--', '-x.log').file).toBe('-x.log')
})

test('help needs nothing else', () => {
  expect(found('-h').has('help')).toBe(true)
  expect(found('--help').has('help')).toBe(true)
})

describe('is refused in one line that says what was given, what is expected, and an example:', () => {
  // [arguments, what the line says]
  test.each([
    [[], 'given no FILE, expected an access log or - for standard input, like: spillway replay access.log'],
    [['f'], 'given no --policy, expected at least one, like: spillway replay access.log'],
    [['f', 'g', '--policy', '10/1m'], 'given 2 files, expected one, like: cat access.log.1 access.log | spillway'],
    [['f', '--polcy', '10/1m'], 'unknown option "--polcy", expected one of --policy, --by, --top,'],
    [['f', '-x'], 'unknown option "-x", expected one of'],
    [['f', '--__proto__'], 'unknown option "--__proto__", expected one of'],
    [['f', '--policy'], "--policy: given no value, expected a policy, like --policy '10/1m'"],
    [['f', '--policy', '--json'], "--policy: given no value, expected a policy, like --policy '10/1m'"],
    [['f', '--policy', '10/1m', '--json=yes'], '--json: given "yes", expected no value, like --json'],
    [
      ['f', '--policy', '10/1m', '--by', 'colour'],
      '--by: given "colour", expected one of ip, path, method, user, agent, like --by ip',
    ],
    [['f', '--policy', '10/1m', '--by', 'ip', '--by', 'path'], '--by was given twice, expected it once, like --by ip'],
    [['f', '--policy', '10/1m', '--top', '-1'], '--top: given "-1", expected a whole number, 0 or more, like --top 20'],
    [['f', '--policy', '10/1m', '--html', ''], '--html: given "", expected a file to write, like --html report.html'],
    [['f', '--policy', '10/1m', '--html', '-'], '--html: given "-", expected a file to write'],
    [['f', '--policy', '10/1m', '--top', '1.5'], '--top: given "1.5", expected a whole number'],
    [['f', '--policy', '10/1m', '--top', ''], '--top: given "", expected a whole number'],
    [['f', '--policy', '10/1m', '--top', '9'.repeat(400)], '--top: given "999'],
    [
      ['f', '--policy', '10/1m', '--ipv6-subnet', '129'],
      '--ipv6-subnet: given "129", expected the bits of a network, 1 to 128',
    ],
  ])('%j', (args, message) => {
    expect(() => read(...args)).toThrow(UsageError)
    expect(() => read(...args)).toThrow(message)
  })

  test('a policy that is none', () => {
    expect(() => read('f', '--policy', '10/min')).toThrow(PolicyError)
    expect(() => read('f', '--policy', '')).toThrow(PolicyError)
  })
})
