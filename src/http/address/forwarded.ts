/** Yields the entries of a header field from the right, where the nearest proxy writes. '' for an entry without an address. */
export type Entries = (field: string) => Iterable<string>

/** The parser for a header field. Fields other than these two contain one address. */
export function entriesOf(header: string): Entries {
  if (header === 'x-forwarded-for') return listed
  return header === 'forwarded' ? forwarded : single
}

/** `client, proxy1, proxy2` */
function* listed(field: string): Generator<string> {
  for (let end = field.length; end >= 0; ) {
    const comma = end === 0 ? -1 : field.lastIndexOf(',', end - 1)
    yield field.slice(comma + 1, end).trim()
    end = comma
  }
}

/** `for=192.0.2.43, for="[2001:db8::17]:4711";proto=https` (RFC 7239) */
function* forwarded(field: string): Generator<string> {
  for (let end = field.length; end >= 0; ) {
    const comma = lastUnquoted(field, ',', end)
    yield nodeOf(field.slice(comma + 1, end))
    end = comma
  }
}

function* single(field: string): Generator<string> {
  yield field.trim()
}

const FOR = /^\s*for=(?:"((?:[^"\\]|\\.)*)"|([^"\s]*))\s*$/i

/** The `for` value of one element of `Forwarded`; '' if there is none, or more than one. */
function nodeOf(element: string): string {
  let node = ''
  for (let end = element.length; end >= 0; ) {
    const semicolon = lastUnquoted(element, ';', end)
    const match = FOR.exec(element.slice(semicolon + 1, end))
    end = semicolon
    if (match === null) continue
    if (node !== '') return ''
    node = match[1]?.replace(/\\(.)/g, '$1') ?? match[2]
  }
  return node
}

/**
 * The last position of `character` before `end`, outside of quotes; -1 if there is none. Read from the right, because the client
 * controls the left: an unclosed quote there must not hide what the proxies have written.
 */
function lastUnquoted(text: string, character: string, end: number): number {
  let quoted = false
  for (let i = end - 1; i >= 0; i--) {
    if (text[i] === '"' && !isEscaped(text, i)) quoted = !quoted
    else if (!quoted && text[i] === character) return i
  }
  return -1
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text[at - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}
