import { hashOf, LONGEST_KEY, ownCopy } from '../../core/short-key.js'
import { maskedAddress } from '../../http/address/address.js'
import type { AccessLogLine } from './access-log.js'
import type { Subject } from './page-data.js'

/** The key of a line; undefined if it has none, so that no limit applies. */
export type KeyOfLine = (line: AccessLogLine) => string | undefined

/** The visible part of a long key. Together with its hash it is longer than any key that is not shortened. */
const SHOWN_CHARACTERS = 160

/**
 * Addresses become keys exactly as in the middleware. Of a key longer than 200 characters the first 160 and a hash of the whole are
 * kept, so that a log of many long paths takes no more memory than one of short ones.
 */
export function keyOfLine(subject: Subject, ipv6Subnet: number | false): KeyOfLine {
  const keyOf = wholeKeyOf(subject, ipv6Subnet)
  return line => {
    const key = keyOf(line)
    return key === undefined || key.length <= LONGEST_KEY ? key : shortened(key)
  }
}

function shortened(key: string): string {
  return `${ownCopy(key.slice(0, SHOWN_CHARACTERS))}...${hashOf(key)}`
}

function wholeKeyOf(subject: Subject, ipv6Subnet: number | false): KeyOfLine {
  switch (subject) {
    case 'ip':
      return line => {
        const client = line.client()
        return client === undefined ? undefined : maskedAddress(client, ipv6Subnet)
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
