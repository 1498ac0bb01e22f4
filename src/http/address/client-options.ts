import { PolicyError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'
import { AddressLists } from './address-lists.js'
import { IPV6_SUBNET } from './masked-address.js'
import { Proxies, type ProxyOptions } from './proxies.js'

/** Options of `addressKey`: how the address of a client is found, and how much of it is the key. */
export interface AddressKeyOptions extends ProxyOptions {
  /** The bits of an IPv6 address that identify a client: 1 to 128, default 56; false: all, so that each address is a client. */
  ipv6Subnet?: number | false
}

/** Options of every middleware that tells clients apart by their address. */
export interface ClientOptions extends AddressKeyOptions {
  /** Addresses and CIDR ranges that are not limited. If both lists contain an address, the narrower range decides. */
  allow?: readonly string[]
  /**
   * Addresses and CIDR ranges that are always refused, with 403. A client address that is not an address passes the list, with one process warning
   * (SPILLWAY_ADDRESS); so does a request over a Unix socket that has none (SPILLWAY_NO_ADDRESS).
   */
  deny?: readonly string[]
}

/** The options, checked. */
export interface ClientSettings {
  /** The beginning of messages, like 'rateLimit'. */
  readonly owner: string
  readonly proxies: Proxies | undefined
  readonly ipv6Subnet: number | false
  /** undefined: both are empty. */
  readonly lists: AddressLists | undefined
}

const KEY_OPTIONS: OptionNames<AddressKeyOptions> = { proxies: true, addressHeader: true, ipv6Subnet: true }
export const CLIENT_OPTIONS: OptionNames<ClientOptions> = { ...KEY_OPTIONS, allow: true, deny: true }

/** Throws `PolicyError`, in which `owner` names the middleware. */
export function parseClientOptions(owner: string, options: ClientOptions): ClientSettings {
  const { ipv6Subnet = IPV6_SUBNET, allow = [], deny = [] } = options
  if (ipv6Subnet !== false && !(Number.isInteger(ipv6Subnet) && ipv6Subnet >= 1 && ipv6Subnet <= 128)) {
    throw new PolicyError(
      `${owner}: ipv6Subnet ${shown(ipv6Subnet)}: expected an integer from 1 to 128, like 56, or false`,
    )
  }
  const lists = new AddressLists(allow, deny, owner)
  return { owner, proxies: Proxies.of(options, owner), ipv6Subnet, lists: lists.isEmpty ? undefined : lists }
}

/** The options of `addressKey`. Throws `PolicyError`. */
export function parseKeyOptions(options: AddressKeyOptions): ClientSettings {
  checkOptions('addressKey', options, KEY_OPTIONS, '{ proxies: 1 }')
  return parseClientOptions('addressKey', options)
}
