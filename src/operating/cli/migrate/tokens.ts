/** A part of a program that matters for finding imports: comments, numbers and what is inside of regular expressions do not. */
export interface Token {
  readonly kind: 'word' | 'sign' | 'text'
  /** Of a text: what is between its quotes, as written. */
  readonly value: string
  /** Where `value` begins in the program. */
  readonly at: number
}

const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy
const NUMBER = /\d[\w.]*/y
const TEXT = /'(?:[^'\\\r\n]|\\(?:\r\n|[\s\S]))*'|"(?:[^"\\\r\n]|\\(?:\r\n|[\s\S]))*"/y
const REGEXP = /\/(?![*/])(?:[^\\/[\r\n]|\\[^\r\n]|\[(?:[^\]\\\r\n]|\\[^\r\n])*\])+\/[a-z]*/y
/** After these words and signs a slash begins a regular expression; after others it divides. */
const BEFORE_VALUE = new Set(
  'return typeof case do else in of instanceof new delete void throw await yield ( , = : [ ! & | ? { } ; + - * % < > ~ ^'.split(
    ' ',
  ),
)

/**
 * The tokens of JavaScript or TypeScript, JSX included, as far as imports need them: a text in a comment, a string or
 * the text part of a template is not taken for code. What it misunderstands (text of JSX with a lone quote) ends with
 * the line.
 */
export function tokensOf(program: string): Token[] {
  const tokens: Token[] = []
  /** Of each open template literal: how many braces are open in its current `${`. */
  const templates: number[] = []
  let at = 0
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    return pattern.exec(program)?.[0]
  }
  const skipTemplate = () => {
    while (at < program.length) {
      if (program[at] === '`') {
        at++
        return
      }
      if (program.startsWith('${', at)) {
        at += 2
        templates.push(0)
        return
      }
      at += program[at] === '\\' ? 2 : 1
    }
  }
  const endOf = (end: string, from: number) => {
    const found = program.indexOf(end, from)
    return found < 0 ? program.length : found
  }
  while (at < program.length) {
    const sign = program[at]
    if (program.startsWith('//', at) || (at === 0 && program.startsWith('#!'))) {
      at = endOf('\n', at)
      continue
    }
    if (program.startsWith('/*', at)) {
      at = endOf('*/', at + 2) + 2
      continue
    }
    const text = match(TEXT)
    if (text !== undefined) {
      tokens.push({ kind: 'text', value: text.slice(1, -1), at: at + 1 })
      at += text.length
      continue
    }
    if (sign === '`') {
      // A template without a value is a text, as in import(`express`).
      const end = simpleTemplateEnd(program, at)
      if (end !== undefined) {
        tokens.push({ kind: 'text', value: program.slice(at + 1, end), at: at + 1 })
        at = end + 1
        continue
      }
      at++
      skipTemplate()
      continue
    }
    const last = tokens.at(-1)
    if (sign === '/' && (last === undefined || (last.kind !== 'text' && BEFORE_VALUE.has(last.value)))) {
      const regexp = match(REGEXP)
      if (regexp !== undefined) {
        at += regexp.length
        continue
      }
    }
    const skipped = match(NUMBER)
    if (skipped !== undefined) {
      tokens.push({ kind: 'word', value: skipped, at })
      at += skipped.length
      continue
    }
    const word = match(WORD)
    if (word !== undefined) {
      tokens.push({ kind: 'word', value: word, at })
      at += word.length
      continue
    }
    if (templates.length > 0) {
      const open = templates.length - 1
      if (sign === '{') templates[open]++
      if (sign === '}' && templates[open]-- === 0) {
        templates.pop()
        at++
        skipTemplate()
        continue
      }
    }
    if (!/\s/.test(sign)) tokens.push({ kind: 'sign', value: sign, at })
    at++
  }
  return tokens
}

function simpleTemplateEnd(program: string, at: number): number | undefined {
  const found = /`[^`$\\]*`/y
  found.lastIndex = at
  const text = found.exec(program)?.[0]
  return text === undefined ? undefined : at + text.length - 1
}
