/** An item of a list of structured fields (RFC 9651): its value, and its parameters as text. */
export interface ListItem {
  readonly value: string
  readonly parameters: ReadonlyMap<string, string>
}

const SPACE = /[ \t]*/y
const VALUE = /"((?:[^"\\]|\\["\\])*)"|([^\s",;]+)/y
const PARAMETER = /[ \t]*;[ \t]*([A-Za-z*][\w.*-]*)(?:=(?:"((?:[^"\\]|\\["\\])*)"|([^\s",;]*)))?/y

/**
 * The items of a list like `"day";q=100;w=86400, "second";q=5;w=1`. Strings lose their quotes. What is malformed is left out, up
 * to the next comma. Takes time in proportion to the length of the text.
 */
export function structuredList(text: string): ListItem[] {
  const items: ListItem[] = []
  let at = 0
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const match = pattern.exec(text)
    if (match !== null) at = pattern.lastIndex
    return match
  }
  while (at < text.length) {
    take(SPACE)
    const value = take(VALUE)
    if (value !== null) {
      const parameters = new Map<string, string>()
      for (let match = take(PARAMETER); match !== null; match = take(PARAMETER)) {
        parameters.set(match[1].toLowerCase(), unquoted(match[2]) ?? match[3] ?? '')
      }
      take(SPACE)
      if (at === text.length || text[at] === ',') items.push({ value: unquoted(value[1]) ?? value[2], parameters })
    }
    const comma = text.indexOf(',', at)
    at = comma < 0 ? text.length : comma + 1
  }
  return items
}

function unquoted(text: string | undefined): string | undefined {
  return text?.replace(/\\(["\\])/g, '$1')
}
