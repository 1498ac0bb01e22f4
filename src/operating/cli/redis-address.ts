import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import { type Arguments, type Option, shownArgument, type Terminal, UsageError } from './arguments.js'

const EXPECTED =
  'expected a URL like redis://127.0.0.1:6379, rediss://user:password@redis.example:6380/2 or redis://[::1]:6379'

/** The address of a Redis server, and the login. */
export interface Address {
  readonly host: string
  readonly port: number
  readonly tls: boolean
  readonly db: number
  readonly username: string | undefined
  readonly password: string | undefined
}

/** Certificates and key of a TLS connection, as PEM. */
interface Certificates {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

/** The address of a server, with the certificates of both sides. */
export interface SecureAddress extends Address {
  readonly certificates: Certificates
}

/** The options of every command that looks at a Redis. */
export const REDIS_OPTIONS = {
  redis: { value: 'the URL of a Redis', example: '--redis redis://127.0.0.1:6379' },
  prefix: { value: 'the prefix of your stores', example: '--prefix spillway' },
  cacert: { value: 'a file of certificates in PEM', example: '--cacert ca.pem' },
  cert: { value: 'a file with a certificate in PEM', example: '--cert client.pem --key client.key' },
  key: { value: 'a file with a private key in PEM', example: '--cert client.pem --key client.key' },
} as const satisfies Record<string, Option>

/** The help for these options. */
export const REDIS_HELP = `  --redis URL      redis: or rediss: (TLS), with user, password and database if needed; default: $REDIS_URL, which other
                   users of this machine cannot see in the list of processes. Of a cluster any node
  --cacert FILE    certificates (PEM) to trust instead of those that Node trusts; with rediss:
  --cert FILE, --key FILE
                   the client's certificate and its private key (PEM), if the server requires one`

/**
 * Reads the URL of a Redis server. Throws `UsageError` for anything else, without repeating it: it may contain a
 * password.
 */
export function readAddress(text: string, source = '--redis'): Address {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'redis:' && url.protocol !== 'rediss:') || url.hostname === '') {
    throw new UsageError(`${source}: given something else, ${EXPECTED}`)
  }
  const path = decoded(url.pathname.replace(/^\//, ''))
  const db = path === '' ? 0 : /^\d{1,6}$/.test(path) ? Number(path) : Number.NaN
  if (Number.isNaN(db))
    throw new UsageError(`${source}: the part after the last / is not the number of a database, ${EXPECTED}`)
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? 6379 : Number(url.port),
    tls: url.protocol === 'rediss:',
    db,
    username: url.username === '' ? undefined : decoded(url.username),
    password: url.password === '' ? undefined : decoded(url.password),
  }
}

/** The Redis server for a command, from its arguments or REDIS_URL, and the prefix of the keys. Throws `UsageError`. */
export function readRedis(command: string, given: Arguments, { env }: Terminal) {
  const { redis, prefix: prefixOption } = REDIS_OPTIONS
  if (given.positionals.length > 0) {
    const words = given.positionals.map(shownArgument).join(' ')
    throw new UsageError(`given ${words}, expected options only, like ${redis.example}`)
  }
  const url = given.values('redis')[0] ?? env.REDIS_URL ?? ''
  if (url === '') {
    const call = `spillway ${command} ${redis.example}`
    throw new UsageError(`given no --redis and no REDIS_URL, expected a URL, like: ${call}`)
  }
  const prefix = given.values('prefix')[0] ?? 'spillway'
  if (prefix === '') throw new UsageError(`--prefix: given nothing, expected a text, like ${prefixOption.example}`)
  const server = readAddress(url, given.has('redis') ? '--redis' : 'REDIS_URL')
  const address: SecureAddress = { ...server, certificates: readCertificates(given, server.tls) }
  return { address, prefix }
}

/** What Node and the clients need for a TLS connection; undefined without TLS. */
export function tlsOptionsOf({ host, tls, certificates }: SecureAddress) {
  if (!tls) return undefined
  return { ...(isIP(host) === 0 && { servername: host }), ...certificates }
}

/** The URL without the password, for output. A single word before the @ may be a password, too. */
export function shownAddress({ host, port, tls, db, username, password }: Address): string {
  const name = password === undefined ? '***' : encodeURIComponent(username ?? '')
  const who = username === undefined ? '' : `${name}@`
  return `${tls ? 'rediss' : 'redis'}://${who}${hostAndPort(host, port)}${db === 0 ? '' : `/${db}`}`
}

export function hostAndPort(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

// A password with a bare % is used as it is.
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Reads the files that `--cacert`, `--cert` and `--key` name. `UsageError` if they cannot be read or used. */
function readCertificates(given: Arguments, tls: boolean): Certificates {
  const [ca, cert, key] = (['cacert', 'cert', 'key'] as const).map(option => readFile(given, option))
  if (ca === undefined && cert === undefined && key === undefined) return {}
  if (!tls) {
    throw new UsageError(
      'given certificates for redis:, expected them with TLS, like --redis rediss://redis.example:6380',
    )
  }
  if ((cert === undefined) !== (key === undefined)) {
    const [one, other] = cert === undefined ? ['key', 'cert'] : ['cert', 'key']
    throw new UsageError(`--${one}: given without --${other}, expected both, like ${REDIS_OPTIONS.cert.example}`)
  }
  const certificates = { ca, cert, key }
  try {
    createSecureContext(certificates)
  } catch (error) {
    throw new UsageError(`the certificates cannot be used: ${(error as Error).message}, expected PEM`, { cause: error })
  }
  return certificates
}

function readFile(given: Arguments, option: 'cacert' | 'cert' | 'key'): Buffer | undefined {
  const path = given.values(option)[0]
  if (path === undefined) return undefined
  try {
    return readFileSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const { value, example } = REDIS_OPTIONS[option]
    throw new UsageError(
      `--${option}: cannot read ${shownArgument(path)} (${code}), expected ${value}, like ${example}`,
    )
  }
}
