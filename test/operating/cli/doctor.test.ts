import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { createServer } from 'node:tls'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { SpillwayError } from '../../../src/limiter/core/errors.js'
import { type Command, runCommand, type Terminal } from '../../../src/operating/cli/arguments.js'
import { doctorCommand } from '../../../src/operating/cli/doctor/doctor-command.js'
import { readAddress, shownAddress } from '../../../src/operating/cli/redis-address.js'
import { replayCommand } from '../../../src/operating/cli/replay/replay-command.js'
import { RedisServer } from '../../support/redis-server.js'
import { spawnSpillway } from './spawn-spillway.js'

// Each test starts processes that first compile TypeScript, on a machine that may be busy.
jest.setTimeout(60_000)

test.each([
  ['redis://h', 'redis://h:6379'],
  ['redis://:secret@h', 'redis://h:6379'],
  ['redis://ann:secret@h/3', 'redis://ann@h:6379/3'],
  ['redis://SECRET@h', 'redis://***@h:6379'],
  ['rediss://SECRET@[::1]:7', 'rediss://***@[::1]:7'],
])('%s is shown as %s', (text, shown) => {
  expect(shownAddress(readAddress(text))).toBe(shown)
})

test.each(['redis://h/%', 'redis://h/%zz', 'redis://h/one', 'redis://h/1/2', 'http://h', 'h:6379', 'redis://'])(
  '%s is refused in one line',
  text => {
    expect(() => readAddress(text)).toThrow(/^--redis: .*expected a URL like redis:\/\/127\.0\.0\.1:6379/)
  },
)

const COMMANDS = { doctor: doctorCommand, replay: replayCommand }

/**
 * The output of a command and the message that it throws, as one text. It runs in this process, because starting one
 * takes a second.
 */
async function outputOf(command: Command, args: readonly string[]): Promise<string> {
  const output = new PassThrough()
  const terminal = { stdin: process.stdin, stdout: output, stderr: output, env: {} } as unknown as Terminal
  const failed = await runCommand(command, args, terminal, new AbortController().signal).then(
    () => '',
    (error: unknown) => {
      expect(error).toBeInstanceOf(SpillwayError)
      return (error as SpillwayError).message
    },
  )
  return `${output.read() ?? ''}${failed}`
}

describe('no output repeats a secret:', () => {
  test.each<[keyof typeof COMMANDS, string[]]>([
    ['doctor', ['redis://user:SECRET@host']],
    ['doctor', ['--redis', 'redis://user:SECRET@host/%']],
    ['doctor', ['--redis', 'http://user:SECRET@host']],
    ['doctor', ['--redis', 'redis://SECRET@127.0.0.1:1']],
    ['doctor', ['--redis', 'redis://user:SECRET@127.0.0.1:1', '--json']],
    ['doctor', ['--json=redis://user:SECRET@host']],
    ['doctor', ['--redis://user:SECRET@host']],
    ['doctor', ['--redis', 'rediss://h', '--cacert', 'redis://user:SECRET@host']],
    ['replay', ['redis://user:SECRET@host', '--policy', '10/1m']],
    ['replay', ['f', '--policy', '10/1m', '--top', 'redis://user:SECRET@host']],
  ])('%s %j', async (command, args) => {
    const output = await outputOf(COMMANDS[command], args)
    expect(output).toMatch(/expected|connection refused/)
    expect(output).not.toContain('SECRET')
  })

  test('not even that of the command without a subcommand', async () => {
    const all = [
      ['redis://user:SECRET@host'],
      ['--redis=redis://user:SECRET@host'],
      ['doctor', '--redis', 'redis://SECRET@h/%'],
    ]
    for (const { exitCode, stdout, stderr } of await Promise.all(all.map(args => spawnSpillway(args)))) {
      expect([exitCode, stdout]).toEqual([2, ''])
      expect(stderr).toMatch(/^spillway.*: .*expected.*\n$/)
      expect(stderr).not.toContain('SECRET')
    }
  })
})

describe('over TLS', () => {
  const pem = (name: string) => join(__dirname, '../../support/tls', name)
  const client = ['--cert', pem('client.pem'), '--key', pem('client.key')]
  const trusting = ['--cacert', pem('ca.pem')]
  let redis: RedisServer
  let url: string
  // A real Redis behind a server that speaks TLS and asks for a certificate.
  const server = createServer(
    {
      ca: readFileSync(pem('ca.pem')),
      cert: readFileSync(pem('server.pem')),
      key: readFileSync(pem('server.key')),
      requestCert: true,
    },
    socket => {
      const plain = connect(redis.port, '127.0.0.1')
      for (const end of [socket, plain]) end.on('error', () => {})
      socket.pipe(plain).pipe(socket)
    },
  )
  beforeAll(async () => {
    redis = await RedisServer.start()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `rediss://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    server.close()
    await redis.stop()
  })

  test('the doctor trusts --cacert and shows --cert', async () => {
    const { exitCode, stdout, stderr } = await spawnSpillway(['doctor', '--redis', url, ...trusting, ...client])
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/\nok {7}version {6}Redis \d/)
  })

  test('reports that the server is not trusted, or that the certificate of the client is missing', async () => {
    const [untrusted, unknown] = await Promise.all([
      spawnSpillway(['doctor', '--redis', url]),
      spawnSpillway(['doctor', '--redis', url, ...trusting]),
    ])
    expect(untrusted).toMatchObject({ exitCode: 1, stderr: '' })
    expect(untrusted.stdout).toMatch(/problem {2}server .*certificate/)
    expect(unknown).toMatchObject({ exitCode: 1, stderr: '' })
    expect(unknown.stdout).toMatch(/problem {2}server /)
  })

  test.each([
    [['--redis', 'redis://h', ...trusting], 'given certificates for redis:, expected them with TLS'],
    [['--redis', 'rediss://h', '--cert', pem('client.pem')], '--cert: given without --key, expected both'],
    [['--redis', 'rediss://h', '--key', pem('client.key')], '--key: given without --cert, expected both'],
    [['--redis', 'rediss://h', '--cacert', '/no/such.pem'], '--cacert: cannot read "/no/such.pem" (ENOENT), expected'],
    [['--redis', 'rediss://h', '--cert', __filename, '--key', __filename], 'the certificates cannot be used: '],
  ])('%j is refused in one line', async (args, message) => {
    expect(await outputOf(doctorCommand, args)).toContain(message)
  })
})
