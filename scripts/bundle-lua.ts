// Puts a script of lua/ and what it requires into one text, as Redis receives it. Everything that it reads is plain Lua
// 5.1; no call is inlined.
//   local m = require 'a.m'    here stand the functions of a/m.lua that are called as m.…, and those that they need, as
//                              locals: m.f is written m_f. Within a block, for what is rare
//   x = require 'a.m'          the same, and x becomes a table of them; so does `return require 'a.m'`, of all
//   ALGORITHM                  a script that names it is built for each algorithm whose state is a row
import luaparse from 'luaparse'

type Range = readonly [from: number, to: number]
interface Node {
  readonly type: string
  readonly range: Range
  readonly [field: string]: unknown
}
/** A field of a module: a function or a constant, from the comment before it on. */
interface Part {
  readonly name: string
  readonly range: Range
}
/** A `require`: the statement that it stands in, and the block in which its name is known. */
interface Require {
  readonly module: string
  readonly name: string | undefined
  readonly isLocal: boolean
  readonly statement: Range
  readonly block: Range
}
interface File {
  readonly text: string
  readonly comments: readonly Range[]
  readonly parts: ReadonlyMap<string, Part>
  readonly requires: readonly Require[]
  /** name.field, wherever a field is read. */
  readonly fields: readonly { readonly name: string; readonly field: string; readonly range: Range }[]
  /** Where ALGORITHM stands. */
  readonly algorithms: readonly Range[]
}

const baseOf = (module: string) => module.slice(module.lastIndexOf('.') + 1)
const isIn = ([from, to]: Range, [start, end]: Range) => from >= start && to <= end
const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string'

export class LuaBundler {
  readonly #files = new Map<string, File>()

  /** `read`: the text of a file, given as 'limiter.consume_row'. `comments`: whether they stay. */
  constructor(
    readonly read: (module: string) => string,
    readonly comments = false,
  ) {}

  /** `algorithm`: what ALGORITHM stands for, like token_bucket. */
  bundle(script: string, algorithm = ''): string {
    const source = this.read(script).replace(/require\('([\w.]+)' \.\. ALGORITHM\)/, `require '$1${algorithm}'`)
    const text = this.#expanded('', this.#parse('', source), [0, source.length], new Set(), algorithm)
    return this.comments
      ? text.replace(/\n{3,}/g, '\n\n')
      : text
          .replace(/[ \t]+$/gm, '')
          .replace(/^\s+/gm, '')
          .trimEnd()
  }

  /** Part of a file as it is sent. `inSight`: the parts of modules that stand before it. */
  #expanded(module: string, file: File, range: Range, inSight: Set<string>, algorithm = ''): string {
    const scopes = new Map([[0, inSight]])
    const edits: [Range, () => string][] = []
    if (!this.comments) for (const comment of file.comments) edits.push([comment, () => ''])
    for (const place of file.algorithms) edits.push([place, () => `'${algorithm}'`])
    for (const { name, field, range: place } of file.fields) {
      const known = name === baseOf(module) ? module : this.#requireOf(file, name, place)?.module
      if (known !== undefined) edits.push([place, () => `${baseOf(known)}_${field}`])
    }
    for (const needed of file.requires) {
      const [block] = needed.block
      const known = () => scopes.get(block) ?? scopes.set(block, new Set(inSight)).get(block)!
      edits.push([needed.statement, () => this.#required(file, needed, known())])
    }
    let [at, end] = range
    let text = ''
    for (const [[from, to], replacement] of edits.sort(([a], [b]) => a[0] - b[0])) {
      if (from < at || to > end) continue
      text += file.text.slice(at, from) + replacement()
      at = to
    }
    return text + file.text.slice(at, end)
  }

  /** What stands in the place of a `require`. */
  #required(file: File, { module, name, isLocal, statement, block }: Require, inSight: Set<string>): string {
    const known = this.#file(module).parts
    const named = file.fields
      .filter(use => use.name === name && (!isLocal || isIn(use.range, block)))
      .map(({ field }) => field)
    const fields = name === undefined ? [...known.keys()] : [...known.keys()].filter(field => named.includes(field))
    const unknown = named.find(field => !known.has(field))
    if (unknown !== undefined) throw new Error(`${module} has no ${unknown}`)
    const indent = /[ ]*$/.exec(file.text.slice(0, statement[0]))![0]
    const parts = fields.map(field => this.#part(module, field, inSight)).join('')
    const code = parts.trim().replaceAll(/\n(?!\n)/g, `\n${indent}`)
    if (isLocal) return code
    const table = `{ ${fields.map(field => `${field} = ${baseOf(module)}_${field}`).join(', ')} }`
    return `${code}\n${indent}${name === undefined ? 'return' : `${name} =`} ${table}`
  }

  /** A part, after those that it needs. */
  #part(module: string, field: string, inSight: Set<string>): string {
    const file = this.#file(module)
    const { name, range } = file.parts.get(field)!
    if (inSight.has(name)) return ''
    inSight.add(name)
    let before = ''
    for (const use of file.fields.filter(use => isIn(use.range, range))) {
      const owner = use.name === baseOf(module) ? module : this.#requireOf(file, use.name, use.range)?.module
      const isOuter = owner === module || this.#requireOf(file, use.name, use.range)?.block[0] === 0
      if (owner !== undefined && isOuter && this.#file(owner).parts.has(use.field))
        before += this.#part(owner, use.field, inSight)
    }
    const text = this.#expanded(module, file, range, inSight)
    return `${before}${text.replace(/^(?=function |\w+ =)/m, 'local ')}\n`
  }

  #requireOf(file: File, name: string, place: Range): Require | undefined {
    return file.requires.findLast(needed => needed.isLocal && needed.name === name && isIn(place, needed.block))
  }

  #file(module: string): File {
    const known = this.#files.get(module) ?? this.#parse(module, this.read(module))
    this.#files.set(module, known)
    return known
  }

  #parse(module: string, text: string): File {
    const parsed = luaparse.parse(text, { luaVersion: '5.1', ranges: true, comments: true }) as unknown as Node
    const comments = (parsed.comments as Node[]).map(({ range }) => range)
    const chunk: Node = { ...parsed, comments: [] }
    const parts = new Map<string, Part>()
    const requires: Require[] = []
    const fields: { name: string; field: string; range: Range }[] = []
    const algorithms: Range[] = []
    const visit = (node: Node, block: Range) => {
      if (node.type === 'Identifier' && node.name === 'ALGORITHM') algorithms.push(node.range)
      if (node.type === 'MemberExpression' && isNode(node.base) && node.base.type === 'Identifier') {
        const [{ name: field }, { name }] = [node.identifier, node.base] as unknown as { name: string }[]
        fields.push({ name, field, range: node.range })
      }
      const values = (node.init ?? node.arguments ?? []) as { base?: Node; argument?: { raw: string } }[]
      const [value] = node.type.endsWith('Statement') ? values : []
      if ((value?.base as { name?: string } | undefined)?.name === 'require') {
        const [variable] = (node.variables ?? []) as { name: string }[]
        const required = value.argument!.raw.slice(1, -1)
        const isLocal = node.type === 'LocalStatement'
        requires.push({ module: required, name: variable?.name, isLocal, statement: node.range, block })
      }
      for (const [name, inner] of Object.entries(node)) {
        const around: Range = name === 'body' && node !== chunk ? node.range : block
        for (const child of Array.isArray(inner) ? inner : [inner]) if (isNode(child)) visit(child, around)
      }
    }
    visit(chunk, [0, text.length])
    for (const node of chunk.body as Node[]) {
      const target = (node.identifier ?? (node.variables as Node[] | undefined)?.[0]) as Node | undefined
      if (target?.type !== 'MemberExpression' || (target.base as { name?: string }).name !== baseOf(module)) continue
      const field = (target.identifier as { name?: string }).name as string
      let [from] = node.range
      for (const [start, end] of comments.toReversed()) if (text.slice(end, from) === '\n') from = start
      parts.set(field, { name: `${baseOf(module)}_${field}`, range: [from, node.range[1]] })
    }
    return { text, comments, parts, requires, fields, algorithms }
  }
}
