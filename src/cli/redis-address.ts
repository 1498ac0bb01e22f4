import { type Arguments, type Option, UsageError } from './arguments.js'
import type { Terminal } from './command.js'

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

/** The options of every command that looks at a Redis. */
export const REDIS_OPTIONS = {
  redis: { value: 'the URL of a Redis', example: '--redis redis://127.0.0.1:6379' },
  prefix: { value: 'the prefix of your stores', example: '--prefix spillway' },
} as const satisfies Record<string, Option>

/**
 * Reads the URL of a Redis server. Throws `UsageError` for anything else, without repeating it: it may contain a password.
 */
export function readAddress(text: string): Address {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'redis:' && url.protocol !== 'rediss:') || url.hostname === '') {
    throw new UsageError(`--redis: given something else, ${EXPECTED}`)
  }
  const path = decoded(url.pathname.replace(/^\//, ''))
  const db = path === '' ? 0 : /^\d{1,6}$/.test(path) ? Number(path) : Number.NaN
  if (Number.isNaN(db))
    throw new UsageError(`--redis: the part after the last / is not the number of a database, ${EXPECTED}`)
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? 6379 : Number(url.port),
    tls: url.protocol === 'rediss:',
    db,
    username: url.username === '' ? undefined : decoded(url.username),
    password: url.password === '' ? undefined : decoded(url.password),
  }
}

/** The Redis server for a command, from its arguments or REDIS_URL: the URL as given, its parts, and the prefix of the keys. */
export function readRedis(command: string, given: Arguments, { env }: Terminal) {
  const { redis, prefix: prefixOption } = REDIS_OPTIONS
  if (given.positionals.length > 0) {
    // The message does not repeat the words: one may be a URL with a password.
    const { length } = given.positionals
    throw new UsageError(`given ${length} words too many, expected --redis URL, like ${redis.example}`)
  }
  const url = given.values('redis')[0] ?? env.REDIS_URL ?? ''
  if (url === '') {
    const call = `spillway ${command} ${redis.example}`
    throw new UsageError(`given no --redis and no REDIS_URL, expected a URL, like: ${call}`)
  }
  const prefix = given.values('prefix')[0] ?? 'spillway'
  if (prefix === '') throw new UsageError(`--prefix: given nothing, expected a text, like ${prefixOption.example}`)
  return { url, address: readAddress(url), prefix }
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
