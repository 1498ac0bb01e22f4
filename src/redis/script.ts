/** A script as sent to Redis, with its hash. */
export interface Script {
  readonly name: string
  readonly sha1: string
  readonly source: string
}

/** A script of lua/. Its text is needed only where a server does not know its hash: until then the texts stay packed. */
export class LuaScript implements Script {
  readonly name: string
  readonly sha1: string
  readonly #texts: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>)

  constructor(
    name: string,
    sha1: string,
    texts: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>),
  ) {
    this.name = name
    this.sha1 = sha1
    this.#texts = texts
  }

  get source(): string {
    const texts = typeof this.#texts === 'function' ? this.#texts() : this.#texts
    return texts[this.name]
  }
}
