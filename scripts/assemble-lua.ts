// Puts the scripts of lua/ together when the package is built. lua/README.md describes what a file of lua/ may hold.

/** A script as Redis receives it. `algorithm`: for which it was built, if it names ALGORITHM. */
export interface Assembled {
  readonly name: string
  /** Its folder in lua/, or its file there. */
  readonly room: string
  readonly algorithm: string | undefined
  readonly source: string
}

/**
 * Statements that stand together at the top of a file: a library function, a constant, a piece, a script. The lines
 * keep their indentation.
 */
interface Part {
  readonly file: string
  readonly lines: readonly string[]
}

/**
 * A line; `choices`: what stands in the place of a @choose within a function, by condition; `declares`: names that it
 * brings into sight.
 */
interface Line {
  readonly text: string
  readonly choices?: readonly (readonly [condition: string, lines: readonly Line[]])[]
  readonly declares?: readonly string[]
}

// In this order: long comments, line comments, long strings, quoted strings, all else. Only a string may hold what
// looks like a comment, and only a comment may hold what looks like a string.
const TOKENS =
  /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|(\[(=*)\[[\s\S]*?\]\3\]|'(?:\\[\s\S]|[^'\\\n])*'|"(?:\\[\s\S]|[^"\\\n])*")|[^-['"]+|[\s\S]/g
const DIRECTIVE = /^[ \t]*--[ \t]*@(.*)$/
const KNOWN_DIRECTIVE = /^(?:inline (?:[a-z]\w*|ALGORITHM)\.[a-z]\w*|choose [a-z]\w*)$/
const CLOSES = /^(?:end|until|else|elseif|then)\b|^[)}\]]/
const MAY_BE_SKIPPED = /^(?:if|elseif)\b.*\bthen$|^(?:then|else)$/

const KEYWORDS = new Set(
  'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
)
/** What Redis gives to a script, as far as scripts may use it. */
const GLOBALS =
  'KEYS ARGV redis cmsgpack error ipairs math pairs pcall string struct table tonumber tostring type unpack'.split(' ')

/** Names in code that are not fields. */
const namesIn = (text: string) =>
  [...text.matchAll(/(?:(\.\.|[.:])\s*)?\b([A-Za-z_]\w*)/g)]
    .filter(([, dot]) => dot !== '.' && dot !== ':')
    .map(m => m[2])
const indentOf = (text: string) => text.search(/\S/)
/** The algorithm that a file of lua/limiter/algorithms/ is about. */
const nameOf = (file: string) => file.replaceAll('_', '-')
const baseOf = (file: string) => file.slice(file.lastIndexOf('/') + 1)

/** Assembles every script of a folder, whose files are given without their ending: 'limiter/change' → text. */
export class LuaAssembler {
  readonly #strings: string[] = []
  readonly #library = new Map<string, Part>()
  readonly #pieces = new Map<string, Part>()
  readonly #scripts = new Map<string, Part>()
  readonly #algorithms: string[]
  readonly #used = new Set<string>()

  constructor(files: Readonly<Record<string, string>>) {
    this.#algorithms = Object.keys(files)
      .filter(file => /(?:^|\/)algorithms\//.test(file))
      .map(baseOf)
    for (const [file, text] of Object.entries(files)) this.#read(file, this.#linesOf(file, text))
    for (const [name, { file, lines }] of [...this.#library, ...this.#pieces, ...this.#scripts])
      this.#checkNames(name, file, lines)
  }

  scripts(): Assembled[] {
    const found = [...this.#scripts].flatMap(([name, part]) => this.#versionsOf(name, part))
    for (const [name, { file }] of [...this.#library, ...this.#pieces])
      if (!this.#used.has(name)) throw new Error(`lua/${file}.lua: nothing uses ${name}`)
    return found
  }

  /** Without comments and blank lines; strings are numbers between zero characters. */
  #linesOf(file: string, text: string): string[] {
    let code = ''
    const marked = text.replaceAll('\r\n', '\n').replace(/^.*$/gm, line => {
      const directive = DIRECTIVE.exec(line)?.[1].trim()
      if (directive === undefined) return line
      if (!KNOWN_DIRECTIVE.test(directive))
        throw new Error(
          `lua/${file}.lua: given "${line.trim()}", expected "-- @inline file.piece" or "-- @choose piece"`,
        )
      return line.replace(/--.*$/, `@${directive}`)
    })
    for (const [token, , string] of marked.matchAll(TOKENS)) {
      if (string !== undefined) code += this.#string(string)
      else code += token.startsWith('--') ? ' ' : token
    }
    return code
      .split('\n')
      .map(line => line.trimEnd())
      .filter(line => line !== '')
  }

  #string(text: string): string {
    return `\0${this.#strings.push(text) - 1}\0`
  }

  #read(file: string, lines: readonly string[]): void {
    const isShared = /(?:^|\/)(?:lib|algorithms)\//.test(file)
    if (!isShared && !lines.some(line => line.startsWith('function '))) {
      this.#put(this.#scripts, baseOf(file), { file, lines })
      return
    }
    const starts = lines.flatMap((line, i) => (/^\s/.test(line) || CLOSES.test(line) ? [] : [i]))
    for (const [k, start] of starts.entries()) {
      const part = lines.slice(start, starts[k + 1])
      const [, local, name] = /^(local )?function ([a-z]\w*)\(/.exec(part[0]) ?? []
      const value = /^local ([A-Za-z_]\w*) =/.exec(part[0])?.[1]
      if (local !== undefined || value !== undefined) this.#put(this.#library, name ?? value, { file, lines: part })
      else if (name !== undefined && part.at(-1) === 'end') {
        const body = { file, lines: part.slice(1, -1).map(line => line.slice(2)) }
        this.#put(isShared ? this.#pieces : this.#scripts, isShared ? `${baseOf(file)}.${name}` : name, body)
      } else
        throw new Error(
          `lua/${file}.lua: given "${part[0]}", expected "local name = …", "local function" or "function name()"`,
        )
    }
  }

  #put(parts: Map<string, Part>, name: string, part: Part): void {
    const twin = parts.get(name)
    if (twin !== undefined) throw new Error(`lua/${part.file}.lua and lua/${twin.file}.lua both define ${name}`)
    parts.set(name, part)
  }

  /** A local variable with the name of a library function would hide it. */
  #checkNames(name: string, file: string, lines: readonly string[]): void {
    const declared = lines.flatMap((line, i) => [
      ...[...line.matchAll(/\b(?:local (?:function )?|for )([\w, ]+)/g)]
        .filter(({ index }) => i > 0 || index > 0 || !this.#library.has(name))
        .map(match => match[1]),
      ...[...line.matchAll(/\bfunction(?: \w+)?\(([\w, ]+)/g)].map(match => match[1]),
    ])
    const hidden = declared.flatMap(list => list.split(/[, ]+/)).find(local => this.#library.has(local))
    if (hidden !== undefined)
      throw new Error(`lua/${file}.lua: ${hidden} is the name of a library function: expected another name`)
  }

  /** One script; or one for each algorithm that has the pieces which it inlines. */
  #versionsOf(name: string, part: Part): Assembled[] {
    const own = part.lines.flatMap(line => /@inline ALGORITHM\.(\w+)/.exec(line)?.[1] ?? [])
    const room = part.file.replace(/\/[^/]*$/, '')
    if (own.length === 0) return [{ name, room, algorithm: undefined, source: this.#assemble(part, undefined) }]
    return this.#algorithms
      .filter(algorithm => own.every(piece => this.#pieces.has(`${algorithm}.${piece}`)))
      .map(file => {
        const algorithm = nameOf(file)
        const source = this.#assemble(part, file).replaceAll('ALGORITHM', algorithm)
        return { name: `${name}.${algorithm}`, room, algorithm, source }
      })
  }

  #assemble(part: Part, algorithm: string | undefined): string {
    const lines = this.#settled(this.#expanded(part, algorithm, [], algorithm), new Set(), algorithm)
    const code = lines.map(({ text }) => text.trim()).join('\n')
    this.#checkSight(part.file, code)
    return code.replace(/\0(\d+)\0/g, (_, index) => this.#strings[index])
  }

  /** With the text of pieces in the place of the directives. `algorithm`: what ALGORITHM stands for. */
  #expanded(part: Part, algorithm: string | undefined, path: readonly string[], alone: string | undefined): Line[] {
    return part.lines.flatMap((text, i): Line[] => {
      const [, indent, verb, name] = /^(\s*)@(inline|choose) (\S+)$/.exec(text) ?? []
      if (verb === undefined) return [{ text }]
      if (verb === 'inline') {
        const full = algorithm === undefined ? name : name.replace('ALGORITHM', algorithm)
        return this.#piece(full, part, algorithm, path, alone, indent)
      }
      const owners = this.#algorithms.filter(owner => this.#pieces.has(`${owner}.${name}`))
      if (owners.length === 0) throw new Error(`lua/${part.file}.lua chooses ${name}, which no algorithm has`)
      const chosen = owners.filter(owner => alone === undefined || owner === alone)
      const choices = chosen.map((owner, k): [string, Line[]] => [
        alone === undefined
          ? `${indent}${k === 0 ? 'if' : 'elseif'} algorithm == ${this.#string(`'${nameOf(owner)}'`)} then`
          : '',
        this.#piece(`${owner}.${name}`, part, owner, path, alone, alone === undefined ? `${indent}  ` : indent),
      ])
      if (choices.length === 0) return []
      const end: Line[] = alone === undefined ? [{ text: `${indent}end` }] : []
      const within = ancestors(part.lines, i).some(line => /\bfunction\b/.test(part.lines[line]))
      if (within) return [{ text: `${indent}@`, choices }, ...end]
      return [...choices.flatMap(([text, lines]) => (text === '' ? lines : [{ text }, ...lines])), ...end]
    })
  }

  #piece(
    name: string,
    by: Part,
    algorithm: string | undefined,
    path: readonly string[],
    alone: string | undefined,
    indent: string,
  ): Line[] {
    const piece = this.#pieces.get(name)
    if (piece === undefined) throw new Error(`lua/${by.file}.lua inlines ${name}, which does not exist`)
    if (path.includes(name)) throw new Error(`lua/${by.file}.lua: ${[...path, name].join(' → ')} inlines itself`)
    this.#used.add(name)
    return this.#expanded(piece, algorithm, [...path, name], alone).map(line => under(indent, line))
  }

  /**
   * With the library functions that the lines name, each before the statement that needs it first; `seen` are in sight
   * already.
   */
  #settled(lines: readonly Line[], seen: ReadonlySet<string>, alone: string | undefined): Line[] {
    const texts = lines.map(({ text }) => text)
    const sites = new Map<string, Set<number>>()
    const bodies = new Map<string, Line[]>()
    // Those that others need come first.
    const order: string[] = []
    const find = (name: string) => {
      const part = this.#library.get(name)
      if (part === undefined || seen.has(name) || sites.has(name)) return
      this.#used.add(name)
      sites.set(name, new Set())
      bodies.set(name, this.#expanded(part, undefined, [], alone))
      for (const needed of bodies.get(name)!.flatMap(({ text }) => namesIn(text))) find(needed)
      order.push(name)
    }
    for (const [i, text] of texts.entries())
      for (const name of namesIn(text)) {
        find(name)
        sites.get(name)?.add(i)
      }
    for (const name of order.toReversed())
      for (const needed of bodies.get(name)!.flatMap(({ text }) => namesIn(text)))
        for (const site of sites.get(name)!) sites.get(needed)?.add(site)

    const placed = new Map<number, string[]>()
    for (const name of order) {
      const at = placeOf(
        texts,
        [...sites.get(name)!].sort((a, b) => a - b),
      )
      placed.set(at, [...(placed.get(at) ?? []), name])
    }
    const whole = lines.flatMap((line, i): Line[] => {
      const indent = line.text.slice(0, indentOf(line.text))
      const before = (placed.get(i) ?? []).flatMap(name =>
        bodies.get(name)!.map((body, k) => ({ ...under(indent, body), declares: k === 0 ? [name] : undefined })),
      )
      return [...before, line]
    })
    return this.#chosen(whole, seen, alone)
  }

  /**
   * With the choices that stand within functions: what they need besides is theirs alone, and made when they are first
   * taken.
   */
  #chosen(lines: readonly Line[], seen: ReadonlySet<string>, alone: string | undefined): Line[] {
    const scopes: { indent: number; names: readonly string[] }[] = []
    return lines.flatMap(line => {
      const indent = indentOf(line.text)
      while (scopes.length > 0 && scopes.at(-1)!.indent > indent) scopes.pop()
      if (line.declares !== undefined) scopes.push({ indent, names: line.declares })
      if (line.choices === undefined) return [line]
      const inSight = new Set([...seen, ...scopes.flatMap(({ names }) => names)])
      return line.choices.flatMap(([condition, body]) => {
        const settled = this.#settled(body, inSight, alone)
        return condition.trim() === '' ? settled : [{ text: condition }, ...settled]
      })
    })
  }

  /**
   * Reads a script once more, by its words alone: what it names must be declared before, in a block that is still open,
   * or belong to Redis.
   */
  #checkSight(file: string, code: string): void {
    const open: Set<string>[] = [new Set(GLOBALS)]
    const brackets: string[] = []
    let loop: string[] = []
    // What stands in a loop is in sight up to the end of its condition.
    let isEnding = false
    const declaration = /\blocal function (\w+)|\blocal ([\w, ]+?)(?= =|\n)|\bfor ([\w, ]+?)(?= =| in )/
    const words = /\bfunction(?: \w+)?\(([\w, ]*)\)|([({[\])}])|(?:(\.\.|[.:])\s*)?\b([A-Za-z_]\w*)( = )?|(\n)/
    for (const match of code.matchAll(new RegExp(`${declaration.source}|${words.source}`, 'g'))) {
      const [text, own, list, variables, parameters, bracket, dot, word, assigned, newline] = match
      if (own !== undefined) open.at(-1)!.add(own)
      for (const name of list?.split(', ') ?? []) open.at(-1)!.add(name)
      if (variables !== undefined) loop = variables.split(', ')
      if (own !== undefined) open.push(new Set(parametersAt(code, match.index + text.length)))
      if (parameters !== undefined) open.push(new Set(parameters.split(', ')))
      if (bracket !== undefined && '({['.includes(bracket)) brackets.push(bracket)
      else if (bracket !== undefined) brackets.pop()
      if (newline !== undefined && isEnding) open.pop()
      isEnding = newline === undefined && (isEnding || word === 'until')
      const isField = dot === '.' || dot === ':' || (assigned !== undefined && brackets.at(-1) === '{')
      if (word === undefined || isField) continue
      if (word === 'end' || word === 'elseif' || word === 'else') open.pop()
      if (word === 'then' || word === 'repeat' || word === 'else') open.push(new Set())
      if (word === 'do') open.push(new Set(loop))
      if (!KEYWORDS.has(word) && !open.some(names => names.has(word)))
        throw new Error(
          `lua/${file}.lua: ${word} is not declared where it is needed (is the file indented as it is nested?)`,
        )
    }
    if (open.length !== 1) throw new Error(`lua/${file}.lua: a block is not closed`)
  }
}

/** The parameters of a function whose list begins there. */
function parametersAt(code: string, start: number): string[] {
  return /^\(([\w, ]*)\)/.exec(code.slice(start))![1].split(', ')
}

/** A line, further to the right. */
function under(indent: string, line: Line): Line {
  const choices = line.choices?.map(([condition, lines]): [string, Line[]] => [
    indent + condition,
    lines.map(inner => under(indent, inner)),
  ])
  return { ...line, text: indent + line.text, choices }
}

/** The lines that open the blocks around a line, outermost first, by indentation. */
function ancestors(texts: readonly string[], line: number): number[] {
  const found: number[] = []
  let indent = indentOf(texts[line])
  for (let i = line - 1; i >= 0 && indent > 0; i--) {
    if (indentOf(texts[i]) >= indent) continue
    indent = indentOf(texts[i])
    found.unshift(i)
  }
  return found
}

/**
 * The line before which a function has to stand that is needed at `sites`, in order: in the innermost block around all
 * of them that may be skipped, so that it is made only when it is needed; but outside loops and functions, so that it
 * is made once.
 */
function placeOf(texts: readonly string[], sites: readonly number[]): number {
  const paths = sites.map(site => [...ancestors(texts, site), site])
  let depth = 0
  while (
    paths.every(path => path.length > depth + 1 && path[depth] === paths[0][depth]) &&
    MAY_BE_SKIPPED.test(texts[paths[0][depth]].trim())
  )
    depth++
  let line = paths[0][depth]
  const indent = indentOf(texts[line])
  while (indentOf(texts[line]) > indent || CLOSES.test(texts[line].trim())) line--
  return line
}
