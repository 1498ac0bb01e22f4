import { readFileSync } from 'node:fs'
import { maskedAddress } from '../../src/http/address/address.js'
import { AccessLogLine } from '../../src/operating/cli/replay/access-log.js'
import { LineCutter } from '../../src/operating/cli/replay/log-source.js'
import type { Request } from './wrong-decisions.js'

/** The requests of an access log by address, as the middleware would key them, in order of time. */
export function logTrace(file: string): Request[] {
  const parsed = new AccessLogLine()
  const requests: Request[] = []
  const reader = {
    line(bytes: Buffer, start: number, end: number) {
      const client = parsed.read(bytes, start, end) ? parsed.client() : undefined
      if (client !== undefined) requests.push({ at: parsed.second * 1000, key: maskedAddress(client) })
    },
    overlongLine() {},
  }
  const cutter = new LineCutter(reader, 65_536)
  cutter.push(readFileSync(file))
  cutter.end()
  // Servers write a line when a response ends, so logs are not quite in order. Sorting is stable.
  return requests.sort((a, b) => a.at - b.at)
}
