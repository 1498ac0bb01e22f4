import { addressKey } from '../../http/address/client-key.js'
import type { AccessLogLine } from './access-log.js'

/** What requests are told apart by. */
export type Subject = 'ip' | 'path' | 'method' | 'user' | 'agent'

export const SUBJECTS: readonly Subject[] = ['ip', 'path', 'method', 'user', 'agent']

/** The key that a line counts for; undefined where it has none, which no limit then applies to. */
export type KeyOfLine = (line: AccessLogLine) => string | undefined

/** Addresses become keys exactly as in the middleware. */
export function keyOfLine(subject: Subject, ipv6Subnet: number | false): KeyOfLine {
  switch (subject) {
    case 'ip':
      return line => {
        const client = line.client()
        return client === undefined ? undefined : addressKey(client, ipv6Subnet)
      }
    case 'path':
      return line => line.path()
    case 'method':
      return line => line.method()
    case 'user':
      return line => line.user()
    case 'agent':
      return line => line.agent()
  }
}
