import { readAddress } from './address.js'
import { AddressSet } from './address-set.js'

/** The addresses that are never limited, and those that are never let in. */
export class AddressLists {
  readonly #allow: AddressSet
  readonly #deny: AddressSet
  readonly isEmpty: boolean

  /** Throws `PolicyError` for an invalid address; `owner` is the beginning of its message, like 'rateLimit'. */
  constructor(allow: readonly string[], deny: readonly string[], owner: string) {
    this.#allow = new AddressSet(allow, `${owner}: allow`)
    this.#deny = new AddressSet(deny, `${owner}: deny`)
    this.isEmpty = this.#allow.isEmpty && this.#deny.isEmpty
  }

  /**
   * If both lists contain the address, the narrower range decides; of two equal ranges, the denial. 'unreadable': the text is not an
   * address, and there is a deny list that it might have been on.
   */
  judge(text: string): 'allow' | 'deny' | 'unreadable' | undefined {
    const address = readAddress(text)
    if (address === undefined) return this.#deny.isEmpty ? undefined : 'unreadable'
    const allowed = this.#allow.match(address)
    const denied = this.#deny.match(address)
    if (denied >= 0 && denied >= allowed) return 'deny'
    return allowed >= 0 ? 'allow' : undefined
  }
}
