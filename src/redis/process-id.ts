import { randomBytes } from 'node:crypto'

let id: string | undefined

/** The name of this process in Redis. Generated on first use: some runtimes have no randomness while a program loads. */
export function processId(): string {
  id ??= randomBytes(9).toString('base64url')
  return id
}
