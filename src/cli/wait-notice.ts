import { setTimeout as sleep } from 'node:timers/promises'
import { SpillwayError } from '../core/errors.js'
import { printable } from '../core/printable.js'
import type { Terminal } from './command.js'
import { hostAndPort, type SecureAddress } from './redis-address.js'
import { Connection, fieldsOf, troubleOf } from './redis-connection.js'

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
 * Waits until Redis serves this user, and says meanwhile on the terminal what for. Resolves to whether it is a cluster, or to undefined if
 * `interrupted` comes first. Rejects with `SpillwayError` for what waiting does not mend, like a wrong password.
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
      connection.close()
      notice.stop()
      if (info?.get('redis_mode') === 'sentinel') {
        throw new SpillwayError(`Redis at ${hostAndPort(address.host, address.port)}: ${SENTINEL.join('; ')}`)
      }
      return { isCluster: info?.get('cluster_enabled') === '1' }
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
