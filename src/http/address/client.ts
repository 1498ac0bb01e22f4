import { shown } from '../../core/errors.js'
import { emitWarning } from '../../core/warning.js'
import type { Framework } from '../framework.js'
import type { AddressLists } from './address-lists.js'
import { addressKey } from './client-key.js'
import type { HeaderFault, Proxies } from './proxies.js'

/** The common key of all requests without an address. */
const NO_ADDRESS = 'unknown'

/** The settings for finding a client's address. */
export interface ClientSettings {
  /** The beginning of warnings, like 'rateLimit'. */
  readonly owner: string
  readonly proxies: Proxies | undefined
  readonly ipv6Subnet: number | false
}

/**
 * Finds the sender's address of a request: for address lists, and as the key if the service gives none. The address comes
 * from the trusted `proxies` if they are given, else from the framework.
 *
 * Requests without an address (a Unix socket, a client that hung up at once) share one count: without a limit they would
 * bypass it. Settings that make strangers share a count, or let a client choose its own, cause one warning
 * each. Warnings only suggest settings that clients cannot bypass.
 */
export class Client<Request> {
  readonly #framework: Framework<Request, never>
  readonly #settings: ClientSettings
  readonly #warned = new Set<string>()

  constructor(framework: Framework<Request, never>, settings: ClientSettings) {
    this.#framework = framework
    this.#settings = settings
  }

  /** The client's address as written; undefined or '' if there is none. */
  address(req: Request): string | undefined {
    const { proxies } = this.#settings
    if (proxies === undefined) return this.#framework.address(req)
    const field = this.#framework.requestHeader(req, proxies.header)
    return proxies.clientOf(this.#framework.peer(req), field, fault => this.#warnOfField(fault, proxies.header))
  }

  /** The address as a key. */
  key(req: Request): string {
    if (this.#settings.proxies === undefined && !this.#warned.has('SPILLWAY_PROXY')) this.#checkTrust(req)
    const address = this.address(req)
    if (address) return addressKey(address, this.#settings.ipv6Subnet)
    this.#warnOfNoAddress(req)
    return NO_ADDRESS
  }

  /** The answer of the `allow` and `deny` lists for the client. */
  judge(req: Request, lists: AddressLists): 'allow' | 'deny' | undefined {
    const address = this.address(req)
    const judged = lists.judge(address ?? '')
    if (judged !== 'unreadable') return judged
    if (address) this.#warnOfUnreadable(address)
    else this.#warnOfNoAddress(req)
    return undefined
  }

  /** Warns if the framework's setting lets clients choose their address, or gives all of them the proxy's address. */
  #checkTrust(req: Request): void {
    const { name, trustsAnybody } = this.#framework
    const trust = this.#framework.trust(req)
    if (trust === 'anybody') {
      this.#warn(
        'SPILLWAY_PROXY',
        `${trustsAnybody}, so a client that sends X-Forwarded-For chooses its own address, and gets past every limit and ` +
          `list. Say how many proxies stand in front of the service, like ${this.#example}`,
      )
    } else if (trust === 'nobody' && isForwarded(this.#framework, req)) {
      this.#warn(
        'SPILLWAY_PROXY',
        `a request came with X-Forwarded-For or Forwarded, but ${name} trusts no proxy, so the request counts for the address ` +
          'of its connection. Any client can send these fields: they do not prove that there is a proxy. If proxies ' +
          `stand in front of the service, say how many, like ${this.#example}; else all clients behind them share one ` +
          'count. If clients connect to the service directly, say { proxies: 0 }',
      )
    }
  }

  #warnOfField(fault: HeaderFault, header: string): void {
    const [what, cause] =
      fault === 'too few'
        ? ['holds fewer addresses than there are proxies', 'came past a proxy']
        : ['has an entry that is no address', 'came through a proxy that does not write addresses']
    this.#warn(
      'SPILLWAY_PROXY_HEADER',
      `the field ${header} of a request ${what}: the request counts for the last address that a trusted proxy reported. ` +
        `Either the request ${cause}, or the option proxies does not describe what stands in front of the service`,
      fault,
    )
  }

  #warnOfUnreadable(address: string): void {
    this.#warn(
      'SPILLWAY_ADDRESS',
      `the deny list cannot judge the address ${shown(address)}, which is not an address: the list does not refuse such requests. ` +
        `If a proxy writes it, name the proxies and the header field that holds addresses, like ${this.#example}`,
    )
  }

  #warnOfNoAddress(req: Request): void {
    // A client that hangs up at once leaves no address either, which is not a wrong setting.
    if (this.#framework.isGone(req)) return
    this.#warn(
      'SPILLWAY_NO_ADDRESS',
      'a request came without an address, as over a Unix socket: all such requests share one count, and no address list applies to them. ' +
        `If a proxy connects so, say how many there are, like ${this.#example}; else give a key, like ` +
        `${this.#settings.owner}({ key: … })`,
    )
  }

  get #example(): string {
    return `${this.#settings.owner}({ proxies: 1 })`
  }

  #warn(code: string, text: string, kind = code): void {
    if (this.#warned.has(kind)) return
    this.#warned.add(kind)
    emitWarning(code, `${this.#settings.owner}: ${text}`)
  }
}

function isForwarded<Request>(framework: Framework<Request, never>, req: Request): boolean {
  return (
    framework.requestHeader(req, 'x-forwarded-for') !== undefined ||
    framework.requestHeader(req, 'forwarded') !== undefined
  )
}
