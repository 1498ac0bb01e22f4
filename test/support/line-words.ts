/** The changes of an ask, four words each, as `asks.lua` reads them. */
export function changesText(words: readonly string[]): string {
  return words.map(word => `${word}\n`).join('')
}

/** The four words of each change of an ask. */
export function changesOf(text: string): string[] {
  return text.split('\n').slice(0, -1)
}

/** The answer of `asks.lua` in parts: nine numbers, then three lists of numbers. */
export function answerParts(reply: unknown): unknown[] {
  const [head, ...lists] = String(reply).split(',')
  return [...head.split(' ').map(Number), ...lists.map(list => (list === '' ? [] : list.split(' ').map(Number)))]
}

/** The same parts as one text. */
export function answerText(parts: readonly unknown[]): string {
  const lists = parts.slice(9) as (readonly unknown[])[]
  return [parts.slice(0, 9), ...lists].map(list => list.join(' ')).join(',')
}
