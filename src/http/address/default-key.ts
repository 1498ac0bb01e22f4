import type { Framework } from '../framework.js'
import { addressKey } from './client-key.js'

/** The one key of all requests whose sender has no address. */
const NO_ADDRESS = 'unknown'

/**
 * Who is asking, if nobody said how to tell: the client's address as the framework gives it, as a key.
 *
 * A request without an address (a Unix socket, a client that hung up at once) is counted with all others of its kind:
 * not limited, it would be a way around the limit. Two settings make strangers share one count without anyone noticing
 * and are warned of once: requests by Unix socket, and a proxy that the framework does not trust.
 */
export function defaultKey<Request>(
  framework: Framework<Request, never>,
  ipv6Subnet: number | false,
): (req: Request) => string {
  let warned = false
  const warn = (text: string, code: string) => {
    warned = true
    process.emitWarning(text, { type: 'SpillwayWarning', code })
  }
  return req => {
    if (!warned && isForwarded(framework, req) && !framework.trustsProxy(req)) {
      warn(
        `A request came with X-Forwarded-For or Forwarded, but ${framework.name} trusts no proxy: all clients behind a ` +
          `proxy would share one count, that of the proxy's address. If there is a proxy, set ${framework.trustProxy}; ` +
          'if there is none, say so with a key of your own, like rateLimit({ key: … })',
        'SPILLWAY_PROXY',
      )
    }
    const address = framework.address(req)
    if (address) return addressKey(address, ipv6Subnet)
    if (!warned && !framework.isGone(req)) {
      warn(
        'A request came without an address, as over a Unix socket: all such requests share one count. If there is a proxy, ' +
          `set ${framework.trustProxy}; if there is none, give a key of your own, like rateLimit({ key: … })`,
        'SPILLWAY_NO_ADDRESS',
      )
    }
    return NO_ADDRESS
  }
}

function isForwarded<Request>(framework: Framework<Request, never>, req: Request): boolean {
  return (
    framework.requestHeader(req, 'x-forwarded-for') !== undefined ||
    framework.requestHeader(req, 'forwarded') !== undefined
  )
}
