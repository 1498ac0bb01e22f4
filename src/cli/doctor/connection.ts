import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { SecureAddress } from './certificates.js'
import { ProtocolError, type Reply, ReplyError, ReplyReader } from './replies.js'

/** The server could not be reached, went away, or did not answer in time. */
export class ConnectionError extends Error {}

export interface Patience {
  /** Timeout of connecting, and of each answer. */
  readonly answerMs: number
  readonly interrupted: AbortSignal
}

interface Waiting {
  resolve(reply: Reply): void
  reject(error: Error): void
}

/**
 * Our own connection instead of a client library: it needs no installation, and shows the server's behaviour without a client's
 * retries.
 */
export class Connection {
  readonly #reader = new ReplyReader()
  readonly #waiting: Waiting[] = []
  #fault: Error | undefined

  private constructor(
    readonly socket: Socket,
    readonly patience: Patience,
  ) {
    socket.on('data', bytes => this.#take(bytes))
    socket.on('error', error => this.#fail(error))
    socket.on('close', () => this.#fail(new ConnectionError('it closed the connection')))
    patience.interrupted.addEventListener('abort', this.#interrupt)
  }

  /** Connects and introduces itself. Rejects with `ConnectionError`, or with the server's `ReplyError`. */
  static async open(address: SecureAddress, patience: Patience): Promise<Connection> {
    const socket = await dial(address, patience)
    const connection = new Connection(socket, patience)
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
      const { answerMs } = this.patience
      const timer = setTimeout(
        () => this.#fail(new ConnectionError(`it did not answer ${command[0]} within ${answerMs} ms`)),
        answerMs,
      )
      const settle = () => clearTimeout(timer)
      this.#waiting.push({
        resolve: reply => {
          settle()
          resolve(reply)
        },
        reject: error => {
          settle()
          reject(error)
        },
      })
      this.socket.write(encoded(command))
    })
  }

  close(): void {
    this.#fail(new ConnectionError('the connection was closed'))
  }

  async #introduce({ username, password, db }: SecureAddress): Promise<void> {
    if (password !== undefined) {
      const reply = await this.ask('AUTH', ...(username === undefined ? [password] : [username, password]))
      if (reply instanceof ReplyError) throw reply
    }
    if (db === 0) return
    const reply = await this.ask('SELECT', db)
    if (reply instanceof ReplyError) throw reply
  }

  #take(bytes: Buffer): void {
    try {
      for (const reply of this.#reader.push(bytes)) this.#waiting.shift()?.resolve(reply)
    } catch (error) {
      this.#fail(error instanceof ProtocolError ? new ConnectionError(error.message) : (error as Error))
    }
  }

  readonly #interrupt = () => this.#fail(new ConnectionError('interrupted'))

  #fail(error: Error): void {
    if (this.#fault) return
    this.#fault = error instanceof ConnectionError ? error : new ConnectionError(error.message, { cause: error })
    this.patience.interrupted.removeEventListener('abort', this.#interrupt)
    this.socket.destroy()
    for (const { reject } of this.#waiting.splice(0)) reject(this.#fault)
  }
}

function dial({ host, port, tls, certificates }: SecureAddress, { answerMs, interrupted }: Patience): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = tls
      ? connectTls({ host, port, servername: isIP(host) ? undefined : host, ...certificates })
      : connectTcp({ host, port, noDelay: true })
    const end = (error: Error) => {
      done()
      socket.destroy()
      reject(new ConnectionError(reasonOf(error), { cause: error }))
    }
    const onInterrupt = () => end(new Error('interrupted'))
    const timer = setTimeout(() => end(new Error(`no connection within ${answerMs} ms`)), answerMs)
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
function reasonOf(error: Error): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(reasonOf).join('; ')
  return error.message
}

function encoded(command: readonly (string | number)[]): string {
  const words = command.map(word => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`)
  return `*${command.length}\r\n${words.join('')}`
}
