import { brotliDecompressSync } from 'node:zlib'
import type { LuaTexts } from './assemble-lua.js'

/** The texts of lua/ as the package carries them, a quarter as large: JSON, compressed with Brotli, in base64. Unpacked when they are first asked for. */
export function packedTexts(packed: string): () => LuaTexts {
  let texts: LuaTexts | undefined
  return () => {
    texts ??= JSON.parse(brotliDecompressSync(Buffer.from(packed, 'base64')).toString()) as LuaTexts
    return texts
  }
}
