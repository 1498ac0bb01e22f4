/**
 * Control, format (also those that turn the direction of writing), unassigned and lone surrogate characters; line
 * separators.
 */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu
const UNPRINTABLE_IN_JSON = /[^\P{C}\n]|[\p{Zl}\p{Zp}]/gu

/** Text without effect on a terminal: control characters are written out, as `\x1b` or `\u{202e}`. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, character => {
    const code = character.codePointAt(0)!
    return code <= 0xff ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`
  })
}

/** As `printable`, and cut to `width` characters. */
export function printableWithin(text: string, width: number): string {
  // The start of a long text is enough, and the text may be very long.
  const characters = [...printable(text.slice(0, 2 * width + 2))]
  return characters.length <= width ? characters.join('') : `${characters.slice(0, Math.max(width - 3, 0)).join('')}...`
}

/** JSON without control characters from a hostile log: `JSON.stringify` does not escape C1 and format characters. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(UNPRINTABLE_IN_JSON, character =>
    Array.from(
      { length: character.length },
      (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
    ).join(''),
  )
}
