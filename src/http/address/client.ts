import { PolicyError, shown, shownOther } from '../../limiter/core/errors.js'
import { checkInteger, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import { type Answer, type Framework, GONE, PASS, plainReply } from '../framework.js'
import { checkIsCalled } from '../misuse.js'
import { NEWCOMERS } from '../newcomers.js'
import { forbid } from '../refusal.js'
import { isPromise, type SyncOrAsync } from '../sync-or-async.js'
import { IPV6_SUBNET, maskedAddress } from './address.js'
import { type HeaderFault, Proxies, type ProxyOptions } from './proxies.js'
import { AddressLists } from './ranges.js'

/** The parts of a connection in Node that say where it comes from; over HTTP/2 they are those of the session. */
interface NodeSocket {
  readonly remoteAddress?: string | undefined
  readonly destroyed?: boolean
  /** Set by Node, also when a service hands a connection to the server. */
  readonly server?: { address?(): unknown }
  /** Node's own part of an open connection. */
  readonly _handle?: { readonly getpeername?: unknown } | null
  destroy?(): unknown
}

/** A request of `node:http` or of the compatibility API of `node:http2`. */
export interface FromNode {
  readonly socket?: object | null
}

/**
 * The address of the connection of a request that Node has received: '' if it has none, as over a Unix socket;
 * undefined if its client has gone.
 *
 * A client that resets its connection right after its request leaves the request behind, but the system forgets its
 * address. So a missing address says nothing about the kind of the connection.
 */
export function nodePeer({ socket }: FromNode): string | undefined {
  const connection = socket as NodeSocket | undefined | null
  try {
    const address = connection?.remoteAddress
    if (address) return address
    if (!connection || !isOverTcp(connection)) return ''
    // Node notices the reset when it reads on, which it does not do while nobody reads the body of this request.
    connection.destroy?.()
  } catch {
    // The socket of an HTTP/2 session that has been destroyed throws whatever is asked.
  }
  return undefined
}

function isOverTcp(connection: NodeSocket): boolean {
  const listensOn = connection.server?.address?.()
  if (typeof listensOn === 'string') return false
  if (connection.destroyed || typeof connection._handle?.getpeername === 'function') return true
  // A stream that a service hands to its server as a connection has no such property.
  return Boolean(listensOn) && 'remoteAddress' in connection
}

/** What a server of Bun says of its requests. */
export interface BunServer {
  requestIP(request: Request): { readonly address: string } | null
  /** undefined over a Unix socket. */
  readonly port?: number
}

/**
 * The same for a web platform request, from the address as the runtime reports it, or from the server of Bun, which
 * like Node forgets the addresses of connections that were reset. Some runtimes never report an address.
 */
export function webPeer(
  request: Request,
  reported: string | undefined,
  server?: Partial<BunServer>,
): string | undefined {
  const asks = typeof server?.requestIP === 'function'
  const address = (asks ? server.requestIP?.(request)?.address : undefined) || reported
  if (address) return address
  // Reading the signal is expensive on some servers.
  return (asks && server.port) || request.signal.aborted ? undefined : ''
}

/** Options of `addressKey`: how the address of a client is found, and how much of it is the key. */
export interface AddressKeyOptions extends ProxyOptions {
  /** What `clientAddress` has made for the whole app, in place of `proxies`, `addressHeader` and `ipv6Subnet`. */
  clients?: ClientAddresses
  /**
   * The bits of an IPv6 address that identify a client: 1 to 128, default 56; false: all, so that each address is a
   * client.
   */
  ipv6Subnet?: number | false
}

/** Address lists, for every middleware that tells clients apart by their address. */
interface ListOptions {
  /**
   * Default: none. Addresses and CIDR ranges that are not limited, like `['10.0.0.0/8', '::1']`. If both lists contain
   * an address, the narrower range decides.
   */
  allow?: readonly string[]
  /**
   * Default: none. Addresses and CIDR ranges that are always refused, with 403. A client address that is not an address
   * passes the list, with one process warning (SPILLWAY_ADDRESS); so does a request over a Unix socket that has none
   * (SPILLWAY_NO_ADDRESS).
   */
  deny?: readonly string[]
}

/** Options of every middleware that tells clients apart by their address; `clients` takes the place of all others. */
export interface ClientOptions extends AddressKeyOptions, ListOptions {}

/** Options of `clientAddress`. */
export interface ClientAddressOptions extends Omit<AddressKeyOptions, 'clients'>, ListOptions {}

/** Where the addresses of an app's clients come from, and which of them are listed: made by `clientAddress`. */
export interface ClientAddresses {
  /** The options that it was made with. */
  readonly options: Readonly<ClientAddressOptions>
}

/** The options, checked. */
export interface ClientSettings {
  /** The beginning of messages, like 'rateLimit'. */
  readonly owner: string
  readonly proxies: Proxies | undefined
  readonly ipv6Subnet: number | false
  /** undefined: both are empty. */
  readonly lists: AddressLists | undefined
  /** The kinds of warnings that were given. */
  readonly warned: Set<string>
}

const ADDRESS_OPTIONS = { proxies: true, addressHeader: true, ipv6Subnet: true } as const
const LIST_OPTIONS: OptionNames<ListOptions> = { allow: true, deny: true }
const KEY_OPTIONS: OptionNames<AddressKeyOptions> = { ...ADDRESS_OPTIONS, clients: true }
const ALL_OPTIONS: OptionNames<ClientAddressOptions> = { ...ADDRESS_OPTIONS, ...LIST_OPTIONS }
export const CLIENT_OPTIONS: OptionNames<ClientOptions> = { ...KEY_OPTIONS, ...LIST_OPTIONS }

/** Of a class, by which messages know one of another copy of the package. */
class Clients implements ClientAddresses {
  constructor(readonly options: Readonly<ClientAddressOptions>) {}
}

/** The settings behind what `clientAddress` has made. */
const SETTINGS = new WeakMap<object, ClientSettings>()

/**
 * Proxies and address lists, given once for a whole app: `const clients = clientAddress({ proxies: 1, deny })`, then
 * `rateLimit({ policy, clients })`, `concurrencyLimit({ permits, clients })`, `shed({ load, priority, clients })` and
 * `addressKey({ clients })`. What is wrong with them causes one warning, not one for each. Throws `PolicyError`.
 */
export function clientAddress(options: ClientAddressOptions = {}): ClientAddresses {
  checkOptions('clientAddress', options, ALL_OPTIONS, '{ proxies: 1 }', NEWCOMERS)
  const clients = Object.freeze(new Clients(Object.freeze({ ...options })))
  SETTINGS.set(clients, parseClientOptions('clientAddress', options))
  return clients
}

/** The options for all routes that a route takes, in place of whose `clients` it may set single options. */
export function withoutAddresses<Options extends ClientOptions>(all: Options, own: ClientOptions): Options {
  const single = SINGLE.filter(name => own[name] !== undefined)
  if (own.clients !== undefined) {
    const others = { ...all }
    for (const name of SINGLE) delete others[name]
    return others
  }
  return single.length > 0 && all.clients !== undefined ? { ...all, clients: undefined, ...all.clients.options } : all
}

const SINGLE = Object.keys(ALL_OPTIONS) as ReadonlyArray<keyof ClientAddressOptions>

/** Throws `PolicyError`, in which `owner` names the middleware. */
export function parseClientOptions(owner: string, options: ClientOptions): ClientSettings {
  if (options.clients !== undefined) return settingsOf(owner, options.clients, options)
  const { ipv6Subnet = IPV6_SUBNET, allow = [], deny = [] } = options
  if (ipv6Subnet !== false) checkInteger(ipv6Subnet, `${owner}: ipv6Subnet`, '56, or false', 1, 128)
  const lists = new AddressLists(allow, deny, owner)
  return {
    owner,
    proxies: Proxies.of(options, owner),
    ipv6Subnet,
    lists: lists.isEmpty ? undefined : lists,
    warned: new Set(),
  }
}

function settingsOf(owner: string, clients: ClientAddresses, options: ClientOptions): ClientSettings {
  const settings = SETTINGS.get(clients)
  if (settings === undefined) {
    throw new PolicyError(
      `${owner}: clients ${shownOther(clients, Clients.name)}: expected what clientAddress gives, like ` +
        'clientAddress({ proxies: 1 })',
    )
  }
  const other = SINGLE.find(name => options[name] !== undefined)
  if (other === undefined) return settings
  throw new PolicyError(
    `${owner}: given both clients and ${other}: expected ${other} where clients is made, like clientAddress({ proxies: 1 })`,
  )
}

/** The options of `addressKey`. Throws `PolicyError`. */
function parseKeyOptions(options: AddressKeyOptions): ClientSettings {
  checkIsCalled(ADDRESS_KEY, options)
  checkOptions(ADDRESS_KEY, options, KEY_OPTIONS, '{ proxies: 1 }', NEWCOMERS)
  return parseClientOptions(ADDRESS_KEY, options)
}

const ADDRESS_KEY = 'addressKey'
/** A key that is the address of a proxy was told by `addressKey` itself. */
let addressKeyWarned = false

/** The common key of all requests without an address. */
const NO_ADDRESS = 'unknown'

/**
 * The sender of a request: whether it is still there, whether an address list judges it, and its address as a key. The
 * address comes from the trusted `proxies` if they are given, else from the framework.
 *
 * A request whose client has gone is over: nothing of it is judged, counted or handled. Only requests over a Unix
 * socket, and those of runtimes that report no address, have none; they share one count: without a limit they would
 * bypass it. Settings that make strangers share a count, or let a client choose its own, cause one warning each.
 * Warnings only suggest settings that clients cannot bypass.
 */
export class Client<Request, Response> {
  readonly #framework: Framework<Request, Response, readonly unknown[]>
  readonly #settings: ClientSettings
  #knowsTrust = false

  constructor(framework: Framework<Request, Response, readonly unknown[]>, settings: ClientSettings) {
    this.#framework = framework
    this.#settings = settings
  }

  /**
   * What is known before any option is asked. An answer: the client has gone, or is on a list. A text: for `key`. The
   * connection is looked at once, because Bun forgets its address from one look to the next.
   */
  meet(req: Request, res: Response): Answer | string {
    const peer = this.#framework.peer(req)
    if (peer === undefined) return this.#leave(req, res)
    const { lists } = this.#settings
    if (lists === undefined) return peer
    const address = this.#address(req, peer)
    const judged = lists.judge(address)
    if (judged === 'allow') return PASS
    if (judged === 'deny') return this.#forbid(req)
    if (judged === 'unreadable') {
      if (address) this.#warnOfUnreadable(address)
      else this.#warnOfNoAddress('no address list applies to them')
    }
    return address
  }

  /**
   * Continues with the answer to a question about the request; if that took time, only if its client is still there.
   */
  whileThere<Value>(
    value: SyncOrAsync<Value>,
    req: Request,
    res: Response,
    next: (value: Value) => SyncOrAsync<Answer>,
  ): SyncOrAsync<Answer> {
    if (!isPromise(value)) return next(value)
    return value.then(value => (this.#framework.peer(req) === undefined ? this.#leave(req, res) : next(value)))
  }

  /**
   * The address as a key. `met`: what `meet` has given: the address, if there are lists, else that of the connection.
   */
  key(req: Request, met: string): string {
    const address = this.#settings.lists === undefined ? this.#address(req, met) : met
    if (address) return maskedAddress(address, this.#settings.ipv6Subnet)
    this.#warnOfNoAddress('all such requests share one count')
    return NO_ADDRESS
  }

  /**
   * Warns of a key of the service that is the address of a proxy, so that all clients behind it share one count.
   * `met`: what `meet` has given.
   */
  watchKey(key: string, req: Request, met: string): void {
    const { proxies, lists, ipv6Subnet, warned } = this.#settings
    if (addressKeyWarned || warned.has('SPILLWAY_PROXY')) return
    const peer = lists === undefined ? met : this.#framework.peer(req)
    if (!peer || (key !== peer && key !== maskedAddress(peer, ipv6Subnet)) || !this.#isForwarded(req)) return
    if (proxies === undefined ? this.#framework.trust(req) !== 'nobody' : this.#isFrom(peer, req, proxies)) return
    this.#warn(
      'SPILLWAY_PROXY',
      'key gave the address of the connection for a request that came with X-Forwarded-For or Forwarded. If proxies ' +
        'stand in front of the service, all clients behind them share one count: take the address from addressKey, ' +
        'like const byAddress = addressKey({ proxies: 1 }), then key: req => req.user?.id ?? byAddress(req). If ' +
        'clients connect to the service directly, say { proxies: 0 }',
    )
  }

  /** Whether the connection's address is that of the client. */
  #isFrom(peer: string, req: Request, proxies: Proxies): boolean {
    return proxies.clientOf(peer, this.#framework.requestHeader(req, proxies.header), () => {}) === peer
  }

  /**
   * The address as a key; undefined if requests have none. A client that has gone has some key: without one it would
   * not be limited.
   */
  ownKey(req: Request): string | undefined {
    const peer = this.#framework.peer(req)
    if (peer === undefined) return NO_ADDRESS
    const address = this.#address(req, peer)
    if (address) return maskedAddress(address, this.#settings.ipv6Subnet)
    this.#warnOfNoAddress('they have no key')
    return undefined
  }

  /** The address as written; '' if there is none. `peer`: that of the connection. */
  #address(req: Request, peer: string): string {
    const { proxies } = this.#settings
    if (proxies === undefined) {
      if (!this.#settings.warned.has('SPILLWAY_PROXY')) this.#checkTrust(req)
      return this.#framework.address(req, peer) ?? ''
    }
    const field = this.#framework.requestHeader(req, proxies.header)
    return proxies.clientOf(peer, field, fault => this.#warnOfField(fault, proxies.header)) ?? ''
  }

  /** No handler will run: other limits can release the places and units of this request, too. */
  #leave(req: Request, res: Response): Answer {
    this.#framework.watch(res, req).end()
    return GONE
  }

  #forbid(req: Request): Answer {
    const refusal = forbid(this.#framework.requestHeader(req, 'accept'))
    return { decision: undefined, fields: refusal.fields, refusal: plainReply(refusal) }
  }

  /** Warns if the framework's setting lets clients choose their address, or gives all of them the proxy's address. */
  #checkTrust(req: Request): void {
    const forwarded = this.#isForwarded(req)
    // The setting is the same for all requests of an app.
    if (this.#knowsTrust && !forwarded) return
    this.#knowsTrust = true
    const trust = this.#framework.trust(req)
    if (typeof trust === 'object') {
      this.#warn(
        'SPILLWAY_PROXY',
        `${trust.anybody}, so a client that sends X-Forwarded-For chooses its own address, and gets past every ` +
          `limit and list. Say how many proxies stand in front of the service, like ${this.#example}`,
      )
    } else if (trust === 'nobody' && forwarded) {
      this.#warnOfUntrusted()
    }
  }

  #warnOfUntrusted(): void {
    this.#warn(
      'SPILLWAY_PROXY',
      `a request came with X-Forwarded-For or Forwarded, but ${this.#framework.name} trusts no proxy, so the ` +
        'request counts for the address of its connection. Any client can send these fields: they do not prove ' +
        `that there is a proxy. If proxies stand in front of the service, say how many, like ${this.#example}; ` +
        'else all clients behind them share one count. If clients connect to the service directly, say { ' +
        'proxies: 0 }',
    )
  }

  #isForwarded(req: Request): boolean {
    const { requestHeader } = this.#framework
    return requestHeader(req, 'x-forwarded-for') !== undefined || requestHeader(req, 'forwarded') !== undefined
  }

  #warnOfField(fault: HeaderFault, header: string): void {
    const [what, cause] =
      fault === 'too few'
        ? ['holds fewer addresses than there are proxies', 'came past a proxy']
        : ['has an entry that is no address', 'came through a proxy that does not write addresses']
    this.#warn(
      'SPILLWAY_PROXY_HEADER',
      `the field ${header} of a request ${what}: the request counts for the last address that a trusted proxy ` +
        `reported. Either the request ${cause}, or the option proxies does not describe what stands in front of ` +
        'the service',
      fault,
    )
  }

  #warnOfUnreadable(address: string): void {
    this.#warn(
      'SPILLWAY_ADDRESS',
      `the deny list cannot judge the address ${shown(address)}, which is not an address: the list does not ` +
        'refuse such requests. If a proxy writes it, name the proxies and the header field that holds addresses, ' +
        `like ${this.#example}`,
    )
  }

  #warnOfNoAddress(so: string): void {
    const { passes } = this.#framework
    const remedy =
      passes === undefined
        ? `If a proxy connects so, say how many there are, like ${this.#example}; else give a key that is not the ` +
          'address'
        : `Pass who asks, like ${passes}; behind proxies say how many there are, like ${this.#example}`
    this.#warn('SPILLWAY_NO_ADDRESS', `requests come without an address, as over a Unix socket: ${so}. ${remedy}`)
  }

  get #example(): string {
    return `${this.#settings.owner}({ proxies: 1 })`
  }

  #warn(code: string, text: string, kind = code): void {
    if (this.#settings.warned.has(kind)) return
    this.#settings.warned.add(kind)
    if (code === 'SPILLWAY_PROXY' && this.#settings.owner === ADDRESS_KEY) addressKeyWarned = true
    emitWarning(code, `${this.#settings.owner}: ${text}`)
  }
}

/** `addressKey` of an adapter. Throws `PolicyError`. */
export function addressKeyOf<Request, Response>(
  framework: Framework<Request, Response, readonly unknown[]>,
  options: AddressKeyOptions = {},
): (req: Request) => string | undefined {
  const client = new Client(framework, parseKeyOptions(options))
  return req => client.ownKey(req)
}
