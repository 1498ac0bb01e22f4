import { brotliDecompressSync } from 'node:zlib'

/** Data that the build has packed: JSON, compressed with Brotli, in base64, a quarter of the size. Unpacked on first use. */
export function packedJson<Value>(packed: string): () => Value {
  let value: Value | undefined
  return () => {
    value ??= JSON.parse(brotliDecompressSync(Buffer.from(packed, 'base64')).toString()) as Value
    return value
  }
}
