import fc from 'fast-check'

const FIRST_SURROGATE = 0xd800
const SURROGATES = 0x800

/** Any code point but half a pair, as by `unit: 'binary'` of fast-check, which takes a second to list them all. */
export const anyCharacter = fc
  .nat(0x10_ffff - SURROGATES)
  .map(nat => String.fromCodePoint(nat < FIRST_SURROGATE ? nat : nat + SURROGATES))
