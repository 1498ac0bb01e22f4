import { AddressSet } from './address-set.js'

/** Who is never limited, and who is never let in. */
export class AddressLists {
  readonly #allow: AddressSet
  readonly #deny: AddressSet
  readonly isEmpty: boolean

  /** Throws `PolicyError` for what is no address. */
  constructor(allow: readonly string[], deny: readonly string[]) {
    this.#allow = new AddressSet(allow, 'allow')
    this.#deny = new AddressSet(deny, 'deny')
    this.isEmpty = allow.length === 0 && deny.length === 0
  }

  /** Where both lists have the address the narrower range counts; of two equal ones, the denial. */
  judge(address: string): 'allow' | 'deny' | undefined {
    const allowed = this.#allow.match(address)
    const denied = this.#deny.match(address)
    if (denied >= 0 && denied >= allowed) return 'deny'
    return allowed >= 0 ? 'allow' : undefined
  }
}
