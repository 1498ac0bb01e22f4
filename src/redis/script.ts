import { createHash } from 'node:crypto'
import { assembleLua, type LuaTexts } from './assemble-lua.js'

/** A script as sent to Redis, with its hash. */
export interface Script {
  readonly name: string
  readonly sha1: string
  readonly source: string
}

/** A script that is assembled from the texts of lua/ on first use: most processes use few of them. */
export class LuaScript implements Script {
  readonly name: string
  readonly #texts: LuaTexts | (() => LuaTexts)
  readonly #file: string
  #source: string | undefined
  #sha1: string | undefined

  /** `file`: the name of its text, like 'limiter/consume'. */
  constructor(file: string, texts: LuaTexts | (() => LuaTexts)) {
    this.name = file.slice(file.lastIndexOf('/') + 1)
    this.#texts = texts
    this.#file = file
  }

  get source(): string {
    if (this.#source === undefined) {
      const texts = typeof this.#texts === 'function' ? this.#texts() : this.#texts
      this.#source = assembleLua(this.#file, texts)
    }
    return this.#source
  }

  get sha1(): string {
    this.#sha1 ??= createHash('sha1').update(this.source).digest('hex')
    return this.#sha1
  }
}
