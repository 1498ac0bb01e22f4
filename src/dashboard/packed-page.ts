import { brotliDecompressSync } from 'node:zlib'

/** What one page is made of. */
export interface PageFiles {
  readonly script: string
  readonly style: string
}

/** A page as the package carries it, a third as large; unpacked when it is first asked for. */
export class PackedPage implements PageFiles {
  readonly #packed: string
  #files: PageFiles | undefined

  /** `packed`: the page as JSON, compressed with Brotli, in base64. */
  constructor(packed: string) {
    this.#packed = packed
  }

  get script(): string {
    return this.#unpacked.script
  }

  get style(): string {
    return this.#unpacked.style
  }

  get #unpacked(): PageFiles {
    this.#files ??= JSON.parse(brotliDecompressSync(Buffer.from(this.#packed, 'base64')).toString()) as PageFiles
    return this.#files
  }
}
