import { readAddress } from './address.js'
import { AddressSet } from './address-set.js'

/** The addresses that are never limited, and those that are never let in. */
export class AddressLists {
  readonly #allow: AddressSet
  readonly #deny: AddressSet
  readonly isEmpty: boolean

  /** Throws `PolicyError` for what is no address. */
  constructor(allow: readonly string[], deny: readonly string[]) {
    this.#allow = new AddressSet(allow, 'rateLimit: allow')
    this.#deny = new AddressSet(deny, 'rateLimit: deny')
    this.isEmpty = this.#allow.isEmpty && this.#deny.isEmpty
  }

  /**
   * Where both lists have the address the narrower range counts; of two equal ones, the denial. 'unreadable': the text is no
   * address, and there is a deny list that might have held it.
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
