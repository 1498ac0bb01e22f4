import { brotliDecompressSync } from 'node:zlib'

/** What the build has packed: JSON, compressed with Brotli, in base64, a quarter as large. Unpacked when it is first asked for. */
export function packedJson<Value>(packed: string): () => Value {
  let value: Value | undefined
  return () => {
    value ??= JSON.parse(brotliDecompressSync(Buffer.from(packed, 'base64')).toString()) as Value
    return value
  }
}
