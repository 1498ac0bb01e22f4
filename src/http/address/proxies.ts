import { PolicyError, shown } from '../../limiter/core/errors.js'
import { readAddress } from './address.js'
import { AddressSet } from './ranges.js'

/**
 * Yields the entries of a header field from the right, where the nearest proxy writes. '' for an entry without an
 * address.
 */
type Entries = (field: string) => Iterable<string>

/** The parser for a header field. Fields other than these two contain one address. */
function entriesOf(header: string): Entries {
  if (header === 'x-forwarded-for') return listed
  return header === 'forwarded' ? forwarded : single
}

/** `client, proxy1, proxy2` */
function* listed(field: string): Generator<string> {
  for (let end = field.length; end >= 0; ) {
    const comma = end === 0 ? -1 : field.lastIndexOf(',', end - 1)
    yield field.slice(comma + 1, end).trim()
    end = comma
  }
}

/** `for=192.0.2.43, for="[2001:db8::17]:4711";proto=https` (RFC 7239) */
function* forwarded(field: string): Generator<string> {
  for (let end = field.length; end >= 0; ) {
    const comma = lastUnquoted(field, ',', end)
    yield nodeOf(field.slice(comma + 1, end))
    end = comma
  }
}

function* single(field: string): Generator<string> {
  yield field.trim()
}

const FOR = /^\s*for=(?:"((?:[^"\\]|\\.)*)"|([^"\s]*))\s*$/i

/** The `for` value of one element of `Forwarded`; '' if there is none, or more than one. */
function nodeOf(element: string): string {
  let node = ''
  for (let end = element.length; end >= 0; ) {
    const semicolon = lastUnquoted(element, ';', end)
    const match = FOR.exec(element.slice(semicolon + 1, end))
    end = semicolon
    if (match === null) continue
    if (node !== '') return ''
    node = match[1]?.replace(/\\(.)/g, '$1') ?? match[2]
  }
  return node
}

/**
 * The last position of `character` before `end`, outside of quotes; -1 if there is none. Read from the right, because
 * the client controls the left: an unclosed quote there must not hide what the proxies have written.
 */
function lastUnquoted(text: string, character: string, end: number): number {
  let quoted = false
  for (let i = end - 1; i >= 0; i--) {
    if (text[i] === '"' && !isEscaped(text, i)) quoted = !quoted
    else if (!quoted && text[i] === character) return i
  }
  return -1
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text[at - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}

/** Options of every middleware that distinguishes clients by address. */
export interface ProxyOptions {
  /**
   * The proxies in front of the service: their number (0: none, clients connect directly), or their addresses and CIDR
   * ranges, like ['10.0.0.0/8']. The client's address is then read from `addressHeader`, from the right, where the
   * proxies write; the framework's own setting is ignored. Default: the framework provides the client's address.
   */
  proxies?: number | readonly string[]
  /**
   * The header field with the client's address, in any case. Default 'x-forwarded-for', which like 'forwarded' is a
   * list to which each proxy appends. Any other field ('cf-connecting-ip') contains one address. Only with `proxies`.
   */
  addressHeader?: string
}

/** Why a request's header field did not give what `proxies` promises. */
export type HeaderFault = 'too few' | 'no address'

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** The proxies that a service trusts, and the header field in which they report the client's address. */
export class Proxies {
  /** In lower case. */
  readonly header: string
  readonly #entries: Entries
  readonly #isList: boolean
  /** Their number, or their addresses. */
  readonly #trusted: number | AddressSet

  /** `owner` is the beginning of messages, like 'rateLimit'. */
  private constructor(proxies: number | readonly string[], header: string, owner: string) {
    this.header = header
    this.#entries = entriesOf(header)
    this.#isList = header === 'x-forwarded-for' || header === 'forwarded'
    this.#trusted = typeof proxies === 'number' ? proxies : new AddressSet(proxies, `${owner}: proxies`)
  }

  /** undefined if the framework provides the client's address. Throws `PolicyError`. */
  static of({ proxies, addressHeader }: ProxyOptions, owner: string): Proxies | undefined {
    if (addressHeader !== undefined && !(typeof addressHeader === 'string' && TOKEN.test(addressHeader))) {
      throw new PolicyError(
        `${owner}: addressHeader ${shown(addressHeader)}: expected the name of a header field, like "x-forwarded-for"`,
      )
    }
    if (proxies === undefined) {
      if (addressHeader === undefined) return undefined
      throw new PolicyError(
        `${owner}: given addressHeader without proxies: any client can send that field, expected the proxies ` +
          'to trust, like { proxies: 1 }',
      )
    }
    const isCount = Number.isSafeInteger(proxies) && (proxies as number) >= 0
    if (!isCount && !Array.isArray(proxies)) {
      throw new PolicyError(
        `${owner}: proxies ${shown(proxies)}: expected how many stand in front of the service, like 1, or ` +
          'their addresses, like ["10.0.0.0/8"]',
      )
    }
    return new Proxies(proxies, addressHeader?.toLowerCase() ?? 'x-forwarded-for', owner)
  }

  /**
   * The client's address as written, from the peer's address and the field `header`; undefined if there is none.
   * `report` is called once if the field does not contain what it should.
   *
   * With a number: the address that the outermost proxy has seen, or the peer's if the field has fewer entries. With a
   * list, if the peer is on it: the first from the right that is not on it; the leftmost if all are. Reading stops at
   * an entry that is not an address.
   */
  clientOf(
    peer: string | undefined,
    field: string | undefined,
    report: (fault: HeaderFault) => void,
  ): string | undefined {
    const trusted = this.#trusted
    if (trusted === 0) return peer
    if (typeof trusted !== 'number' && !isIn(trusted, peer)) return peer
    let client = peer
    let read = 0
    for (const entry of field ? this.#entries(field) : []) {
      if (readAddress(entry) === undefined) {
        report('no address')
        return client
      }
      client = entry
      read++
      if (!this.#isList || (typeof trusted === 'number' ? read === trusted : !isIn(trusted, entry))) return client
    }
    if (typeof trusted !== 'number') return client
    report('too few')
    return peer
  }
}

function isIn(set: AddressSet, text: string | undefined): boolean {
  const address = text === undefined ? undefined : readAddress(text)
  return address !== undefined && set.match(address) >= 0
}
