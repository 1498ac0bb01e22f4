import { REPLACED, replacedBy } from './replaced-packages.js'
import { type Token, tokensOf } from './tokens.js'

/** One place of a program that loads one of the packages. */
export interface Use {
  readonly package: string
  /** As written: 'bottleneck/light'. */
  readonly specifier: string
  /** Where the specifier begins in the program. */
  readonly at: number
  /** From 1. */
  readonly line: number
  /** The line as written, without indentation. */
  readonly text: string
  /** The drop-in; undefined if it is to be changed by hand. */
  readonly dropIn: string | undefined
  /** Why it is to be changed by hand. */
  readonly reason?: string
  /** The options that calls of what was imported are given. */
  readonly options: readonly string[]
}

/** What an import line binds in its file. */
interface Binding {
  /** The names as the package exports them. */
  readonly names: readonly string[]
  /** The names in this file. */
  readonly locals: readonly string[]
}

/** Every place of a program that loads one of the packages, in its order. */
export function usesOf(program: string): Use[] {
  const tokens = tokensOf(program)
  return tokens.flatMap((token, index) => {
    const name = token.kind === 'text' ? replacedBy(token.value) : undefined
    return name === undefined ? [] : [useAt(program, tokens, index, name)]
  })
}

/** The program with every import that has a drop-in rewritten. */
export function rewritten(program: string, uses: readonly Use[]): string {
  let text = ''
  let from = 0
  for (const { at, specifier, dropIn } of uses) {
    if (dropIn === undefined) continue
    text += program.slice(from, at) + dropIn
    from = at + specifier.length
  }
  return text + program.slice(from)
}

function useAt(program: string, tokens: readonly Token[], index: number, name: string): Use {
  const { value: specifier, at } = tokens[index]
  const { dropIns, lacks = [] } = REPLACED[name]
  const start = program.lastIndexOf('\n', at) + 1
  const end = program.indexOf('\n', at)
  const use = {
    package: name,
    specifier,
    at,
    line: program.slice(0, at).split('\n').length,
    text: program.slice(start, end < 0 ? undefined : end).trim(),
  }
  const binding = bindingAt(tokens, index)
  if (binding === undefined) {
    const reason = 'it names the package without importing it'
    return { ...use, dropIn: undefined, reason, options: [] }
  }
  const found = membersOf(tokens, binding)
  const options = [...new Set([...optionsOf(tokens, binding.locals), ...optionsBehind(tokens, index)])]
  const missing = [...new Set([...binding.names, ...found])].filter(one => lacks.includes(one))
  const dropIn = dropIns[specifier]
  if (dropIn !== undefined && missing.length === 0) return { ...use, dropIn, options }
  const reason =
    missing.length > 0
      ? `the drop-in has no ${missing.join(', ')}`
      : Object.keys(dropIns).length > 0
        ? `the drop-in has no module ${specifier}`
        : 'there is no drop-in'
  return { ...use, dropIn: undefined, reason, options }
}

/** Undefined if the text at this place is not the specifier of an import, an export or a call that loads it. */
function bindingAt(tokens: readonly Token[], index: number): Binding | undefined {
  const value = (offset: number) =>
    tokens[index + offset]?.kind === 'text' ? undefined : tokens[index + offset]?.value
  if (value(-1) === 'import') return { names: [], locals: [] }
  if (value(-1) === 'from') return importedBefore(tokens, index - 1)
  if (value(-1) !== '(') return undefined
  const callee = value(-2)
  const isRequire = callee === 'require' && (value(-3) !== '.' || value(-4) === 'module')
  if (callee !== 'import' && !isRequire && !(callee === 'resolve' && value(-4) === 'require')) return undefined
  return assignedBefore(tokens, index)
}

/** `import a, { b as c } from`, `import * as d from`, `export { e } from`, `export * from`. */
function importedBefore(tokens: readonly Token[], from: number): Binding | undefined {
  let start = from - 1
  while (start >= 0 && (tokens[start].kind !== 'word' || !/^(?:im|ex)port$/.test(tokens[start].value))) {
    if (tokens[start].kind === 'text' || tokens[start].value === ';') return undefined
    start--
  }
  return start < 0 ? undefined : namesIn(tokens.slice(start + 1, from), 'as')
}

/** `const { a: b } = require(…)`, `const c = await import(…)`, `import d = require(…)`, `require(…).e`. */
function assignedBefore(tokens: readonly Token[], index: number): Binding {
  const behind = tokens.slice(index + 1, index + 4).map(({ value }) => value)
  const member = behind[0] === ')' && behind[1] === '.' ? [behind[2]] : []
  let at = index - 3
  while (['await', '(', 'module', '.', 'require'].includes(tokens[at]?.value)) at--
  if (tokens[at]?.value !== '=') return { names: member, locals: [] }
  const last = at - 1
  if (tokens[last].value !== '}') return { names: member, locals: [tokens[last].value] }
  let first = last
  while (first > 0 && tokens[first].value !== '{') first--
  return namesIn(tokens.slice(first, last), ':')
}

/** `separator`: stands between the name of the package and that of the file. */
function namesIn(tokens: readonly Token[], separator: string): Binding {
  const words = tokens.filter(
    ({ kind, value }) => kind === 'word' || value === separator || value === '*' || value === ',',
  )
  const names: string[] = []
  const locals: string[] = []
  for (const [index, { value, kind }] of words.entries()) {
    if (kind !== 'word' || value === separator || value === 'type' || value === 'default') continue
    if (words[index - 1]?.value === separator) locals.push(value)
    else {
      names.push(value)
      if (words[index + 1]?.value !== separator) locals.push(value)
    }
  }
  return { names, locals }
}

/** The names behind `local.`: of a namespace they are the package's own. */
function membersOf(tokens: readonly Token[], { locals }: Binding): string[] {
  return tokens.flatMap(({ value, kind }, index) => {
    const isMember = kind === 'word' && locals.includes(value) && tokens[index - 1]?.value !== '.'
    return isMember && tokens[index + 1]?.value === '.' ? [tokens[index + 2]?.value ?? ''] : []
  })
}

/** The options of `local({ … })`, `new local.Class({ … })` and `register(local, { … })`. */
function optionsOf(tokens: readonly Token[], locals: readonly string[]): string[] {
  return tokens.flatMap(({ value, kind }, index) => {
    if (kind !== 'word' || !locals.includes(value) || /^(?:\.|import)$/.test(tokens[index - 1]?.value ?? '')) return []
    let next = index + 1
    while (tokens[next]?.value === '.') next += 2
    return /^[(,]$/.test(tokens[next]?.value ?? '') ? keysAt(tokens, next + 1) : []
  })
}

/** The options of `require('…')({ … })`, `new (require('…'))({ … })` and `register(require('…'), { … })`. */
function optionsBehind(tokens: readonly Token[], index: number): string[] {
  let next = index + 1
  while (tokens[next]?.value === ')') next++
  if (next === index + 1) return []
  while (tokens[next]?.value === '.') next += 2
  return /^[(,]$/.test(tokens[next]?.value ?? '') ? keysAt(tokens, next + 1) : []
}

/** The keys of the object literal that begins here, not those of objects in it. */
function keysAt(tokens: readonly Token[], start: number): string[] {
  if (tokens[start]?.value !== '{' || tokens[start].kind === 'text') return []
  const keys: string[] = []
  let depth = 1
  let isFirst = true
  for (let at = start + 1; at < tokens.length; at++) {
    const { value, kind } = tokens[at]
    const isSign = kind === 'sign'
    if (isFirst && isBeforeKey(tokens, at)) continue
    if (isSign && '([{'.includes(value)) depth++
    else if (isSign && ')]}'.includes(value) && --depth === 0) break
    else if (isFirst && !isSign) keys.push(value)
    isFirst = depth === 1 && isSign && value === ','
  }
  return keys
}

/** Whether this is the `async` or `*` of a method, or the `get` of a property, and not a key of that name. */
function isBeforeKey(tokens: readonly Token[], at: number): boolean {
  const { value, kind } = tokens[at]
  if (kind === 'sign') return value === '*'
  return kind === 'word' && /^(?:async|get|set)$/.test(value) && !/^[:,(}]$/.test(tokens[at + 1]?.value ?? '')
}
