import { connect as connectTcp, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { SpillwayError } from '../../limiter/core/errors.js'
import { printable } from '../../limiter/core/printable.js'
import type { Terminal } from './arguments.js'
import { hostAndPort, type SecureAddress, tlsOptionsOf } from './redis-address.js'

/** The words for faults of the network, all of which may pass. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'it closed the connection',
  EPIPE: 'it closed the connection',
  ETIMEDOUT: 'no connection',
  EHOSTUNREACH: 'no route to it',
  ENETUNREACH: 'no route to it',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'its name cannot be looked up',
}

/** Answers of a server that does not serve anybody now, or not us: what helps, and whether it may pass without that. */
const REFUSALS: Readonly<Record<string, readonly [remedy: string, mayPass: boolean]>> = {
  LOADING: ['it reads its data from disk: wait', true],
  BUSY: ['a script runs for too long and blocks all clients: SCRIPT KILL ends it', true],
  MASTERDOWN: ['it has lost its primary: find out why, or promote it', true],
  NOAUTH: ['give the password in the URL: redis://user:password@host, or redis://:password@host without a name', false],
  WRONGPASS: [
    'check the name and the password in the URL; special characters are written as in URLs (%2F for /)',
    false,
  ],
  NOPERM: ['allow the user what docs/operating.md lists under "Permissions"', false],
}

/** The server could not be reached, went away, or did not answer in time. */
class ConnectionError extends Error {
  constructor(
    message: string,
    /** False for what only another URL or server mends. */
    readonly mayPass: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/**
 * Why a server cannot be used, in words, and what helps. Throws anything that is no error of a server or its
 * connection.
 */
export function troubleOf(error: unknown): {
  readonly text: string
  readonly remedy: string
  readonly mayPass: boolean
} {
  if (error instanceof ReplyError) {
    const [remedy, mayPass] = REFUSALS[error.message.split(' ')[0]] ?? ['see what the server says', false]
    return { text: error.message, remedy, mayPass }
  }
  if (!(error instanceof ConnectionError)) throw error
  const remedy = 'see whether it runs, whether the address is right, and rediss: where it wants TLS'
  return { text: error.message, remedy, mayPass: error.mayPass }
}

export interface ReplyLimits {
  /** Timeout of connecting, and of each answer. */
  readonly answerMs: number
  readonly interrupted: AbortSignal
}

interface Waiting {
  resolve(reply: Reply): void
  reject(error: Error): void
  readonly timer: NodeJS.Timeout
}

/**
 * Our own connection instead of a client library: it needs no installation, and shows the server's behaviour without a
 * client's retries.
 */
export class Connection {
  readonly #reader = new ReplyReader()
  readonly #waiting: Waiting[] = []
  #fault: Error | undefined

  private constructor(
    readonly socket: Socket,
    readonly limits: ReplyLimits,
  ) {
    socket.on('data', bytes => this.#take(bytes))
    socket.on('error', error => this.#fail(error))
    socket.on('close', () => this.#fail(new ConnectionError(REASONS.ECONNRESET, true)))
    limits.interrupted.addEventListener('abort', this.#interrupt)
  }

  /**
   * Connects, logs in and makes sure that the server serves. Rejects with `ConnectionError`, or with the server's
   * `ReplyError`.
   */
  static async open(address: SecureAddress, limits: ReplyLimits): Promise<Connection> {
    const socket = await dial(address, limits)
    const connection = new Connection(socket, limits)
    try {
      await connection.#introduce(address)
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  /** Resolves to the server's answer, including errors. Rejects with `ConnectionError` without an answer. */
  ask(...command: readonly (string | number)[]): Promise<Reply> {
    if (this.#fault) return Promise.reject(this.#fault)
    return new Promise((resolve, reject) => {
      const { answerMs } = this.limits
      const timer = setTimeout(
        () => this.#fail(new ConnectionError(`it did not answer ${command[0]} within ${answerMs} ms`, true)),
        answerMs,
      )
      this.#waiting.push({ resolve, reject, timer })
      this.socket.write(encoded(command))
    })
  }

  /** As `ask`, and rejects with the server's error. */
  async demand(...command: readonly (string | number)[]): Promise<Reply> {
    const reply = await this.ask(...command)
    if (reply instanceof ReplyError) throw reply
    return reply
  }

  /** A client with the calls of ioredis that a store needs, so that a real store can use this connection. */
  client(isCluster: boolean): object {
    return {
      status: 'ready',
      isCluster,
      evalsha: (...words: (string | number)[]) => this.demand('EVALSHA', ...words),
      eval: (...words: (string | number)[]) => this.demand('EVAL', ...words),
      connect: () => Promise.resolve(),
      on() {},
    }
  }

  close(): void {
    this.#fail(new ConnectionError('the connection was closed', true))
  }

  async #introduce({ username, password, db }: SecureAddress): Promise<void> {
    if (password !== undefined)
      await this.demand('AUTH', ...(username === undefined ? [password] : [username, password]))
    if (db !== 0) await this.demand('SELECT', db)
    const pong = await this.ask('PING')
    // A user without permission for PING may still have all permissions that are needed.
    if (pong instanceof ReplyError && !pong.message.startsWith('NOPERM')) throw pong
  }

  #take(bytes: Buffer): void {
    try {
      for (const reply of this.#reader.push(bytes)) {
        const waiting = this.#waiting.shift()
        clearTimeout(waiting?.timer)
        waiting?.resolve(reply)
      }
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  readonly #interrupt = () => this.#fail(new ConnectionError('interrupted', false))

  #fail(error: Error): void {
    if (this.#fault) return
    this.#fault = connectionError(error)
    this.limits.interrupted.removeEventListener('abort', this.#interrupt)
    this.socket.destroy()
    for (const { reject, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer)
      reject(this.#fault)
    }
  }
}

function dial(address: SecureAddress, { answerMs, interrupted }: ReplyLimits): Promise<Socket> {
  const { host, port } = address
  const tls = tlsOptionsOf(address)
  return new Promise((resolve, reject) => {
    const socket = tls ? connectTls({ host, port, ...tls }) : connectTcp({ host, port, noDelay: true })
    const end = (error: Error) => {
      done()
      socket.destroy()
      reject(connectionError(error))
    }
    const onInterrupt = () => end(new ConnectionError('interrupted', false))
    const timer = setTimeout(() => end(new ConnectionError(`no connection within ${answerMs} ms`, true)), answerMs)
    const done = () => {
      clearTimeout(timer)
      interrupted.removeEventListener('abort', onInterrupt)
      socket.off('error', end)
    }
    interrupted.addEventListener('abort', onInterrupt)
    if (interrupted.aborted) return onInterrupt()
    socket.once('error', end)
    socket.once(tls ? 'secureConnect' : 'connect', () => {
      done()
      resolve(socket)
    })
  })
}

/** If a name has several addresses and none answers, the reasons are in the inner errors. */
function connectionError(error: Error): ConnectionError {
  if (error instanceof ConnectionError) return error
  const inner = error instanceof AggregateError && error.message === '' ? (error.errors as Error[]) : [error]
  const codes = inner.map(one => (one as NodeJS.ErrnoException).code ?? '')
  const reasons = new Set(inner.map(({ message }, i) => REASONS[codes[i]] ?? message))
  return new ConnectionError(
    [...reasons].join('; '),
    codes.every(code => code in REASONS),
    { cause: error },
  )
}

function encoded(command: readonly (string | number)[]): string {
  const words = command.map(word => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`)
  return `*${command.length}\r\n${words.join('')}`
}

/** The fields of an answer to INFO or CLUSTER INFO; undefined if the server refused it. */
export function fieldsOf(reply: Reply): ReadonlyMap<string, string> | undefined {
  if (typeof reply !== 'string') return undefined
  const lines = reply.split('\r\n').filter(line => line.indexOf(':') > 0)
  return new Map(lines.map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
}

/** A server's reply. Errors are values here, because most of them are findings. */
export type Reply = string | number | null | ReplyError | readonly Reply[]

export class ReplyError extends Error {}

/** The largest reply that is accepted; the commands never request a longer one. */
const LONGEST = 64 * 1024 * 1024

/** The server does not speak the protocol of Redis. */
class ProtocolError extends Error {}

/** Splits a server's output (RESP 2) into replies. */
class ReplyReader {
  #bytes: Buffer = Buffer.alloc(0)

  /** The replies that are complete now, in order. */
  push(bytes: Buffer): Reply[] {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    const replies: Reply[] = []
    let at = 0
    for (;;) {
      const read = this.#read(at)
      if (read === undefined) break
      replies.push(read.reply)
      at = read.end
    }
    this.#bytes = this.#bytes.subarray(at)
    return replies
  }

  /** The reply that begins at `start`; undefined if it is not complete. */
  #read(start: number): { reply: Reply; end: number } | undefined {
    const lineEnd = this.#bytes.indexOf('\r\n', start)
    if (lineEnd < 0) {
      if (this.#bytes.length - start > LONGEST) throw new ProtocolError('it sends a line that never ends')
      return undefined
    }
    const line = this.#bytes.toString('utf8', start + 1, lineEnd)
    const end = lineEnd + 2
    switch (this.#bytes[start]) {
      case 43: // +
        return { reply: line, end }
      case 45: // -
        return { reply: new ReplyError(line), end }
      case 58: // :
        return { reply: lengthOf(line), end }
      case 36: // $
        return this.#readText(end, lengthOf(line))
      case 42: // *
        return this.#readList(end, lengthOf(line))
      default:
        throw new ProtocolError('its reply is not in the protocol of Redis')
    }
  }

  #readText(start: number, length: number): { reply: Reply; end: number } | undefined {
    if (length < 0) return { reply: null, end: start }
    const end = start + length
    return this.#bytes.length < end + 2 ? undefined : { reply: this.#bytes.toString('utf8', start, end), end: end + 2 }
  }

  #readList(start: number, count: number): { reply: Reply; end: number } | undefined {
    if (count < 0) return { reply: null, end: start }
    const list: Reply[] = []
    let end = start
    for (let i = 0; i < count; i++) {
      const read = this.#read(end)
      if (read === undefined) return undefined
      list.push(read.reply)
      end = read.end
    }
    return { reply: list, end }
  }
}

function lengthOf(line: string): number {
  const value = Number(line)
  if (line === '' || !Number.isSafeInteger(value) || value > Number.MAX_SAFE_INTEGER) {
    throw new ProtocolError('what it sends is not the protocol of Redis')
  }
  return value
}

/** After so long people ask themselves what a command waits for. */
const SILENT_MS = 800
const RETRY_MS = 500
const ANSWER_MS = 2000

/** What is wrong with the address of a sentinel, and what helps. */
export const SENTINEL = [
  'a sentinel: it knows where the primary is, and keeps nothing itself',
  'give --redis the URL of the primary, and your client the sentinels',
] as const

/** Says on the terminal, once for each reason, that a command waits for Redis. */
export class WaitNotice {
  readonly #output: NodeJS.WritableStream
  readonly #redis: string
  readonly #told = new Set<string>()
  #timer: NodeJS.Timeout | undefined

  /** Says so, too, if `stop` is not called within a second. */
  constructor({ stderr }: Terminal, { host, port }: SecureAddress) {
    this.#output = stderr
    this.#redis = hostAndPort(host, port)
    this.#timer = setTimeout(() => this.tell('no answer yet'), SILENT_MS)
  }

  tell(reason: string): void {
    this.stop()
    if (this.#told.has(reason)) return
    this.#told.add(reason)
    this.#output.write(`waiting for Redis at ${this.#redis}: ${printable(reason)}\n`)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

/**
 * Waits until Redis serves this user, and says meanwhile on the terminal what for. Resolves to whether it is a cluster,
 * or to undefined if `interrupted` comes first. Rejects with `SpillwayError` for what waiting does not mend, like a
 * wrong password.
 */
export async function waitForRedis(
  address: SecureAddress,
  terminal: Terminal,
  interrupted: AbortSignal,
): Promise<{ readonly isCluster: boolean } | undefined> {
  const notice = new WaitNotice(terminal, address)
  while (!interrupted.aborted) {
    try {
      const connection = await Connection.open(address, { answerMs: ANSWER_MS, interrupted })
      const info = fieldsOf(await connection.ask('INFO'))
      // A user who may not INFO may still learn what every client of a cluster has to know.
      const isCluster =
        info === undefined
          ? fieldsOf(await connection.ask('CLUSTER', 'INFO')) !== undefined
          : info.get('cluster_enabled') === '1'
      connection.close()
      notice.stop()
      if (info?.get('redis_mode') === 'sentinel') {
        throw new SpillwayError(`Redis at ${hostAndPort(address.host, address.port)}: ${SENTINEL.join('; ')}`)
      }
      return { isCluster }
    } catch (error) {
      if (interrupted.aborted) break
      if (error instanceof SpillwayError) throw error
      const { text, remedy, mayPass } = troubleOf(error)
      if (!mayPass) {
        notice.stop()
        throw new SpillwayError(`Redis at ${hostAndPort(address.host, address.port)}: ${text}; ${remedy}`, {
          cause: error,
        })
      }
      notice.tell(text)
    }
    await sleep(RETRY_MS, undefined, { signal: interrupted }).catch(() => {})
  }
  notice.stop()
  return undefined
}
