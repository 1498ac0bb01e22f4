import { randomBytes } from 'node:crypto'

let id: string | undefined

/** Names this process to Redis. Drawn when it is first asked for: some runtimes have no randomness while a program loads. */
export function processId(): string {
  id ??= randomBytes(9).toString('base64url')
  return id
}
