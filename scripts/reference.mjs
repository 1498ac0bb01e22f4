#!/usr/bin/env node
// Fills the blocks of docs/reference.md from the docstrings of src/. The text between the blocks, and their order, are
// written by hand:
//
//   <!-- spillway/express RateLimitOptions: policy, limit -->   rows of these members; without names, of all that no
//                                                               other block shows
//   <!-- end -->
//
// So each member stands on the page once, and an adapter's block shows what differs from the blocks above it. With
// --check nothing is written. Fails when a public name or a member is missing, has no docstring, or is an option
// without an example; with --check also when the page is stale.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const BLOCK = /^<!-- (spillway\S*) ([\w.]+)(?:: (.+?))? -->$[\s\S]*?^<!-- end -->$/gm
/** These stand for other packages, whose documents describe them. */
const DROP_INS = ['bottleneck', 'bottleneck/light', 'express-rate-limit', 'koa-ratelimit', 'rate-limiter-flexible']

const root = join(fileURLToPath(import.meta.url), '../..')
const page = join(root, 'docs/reference.md')
/** @type {Record<string, string>} */
const entries = JSON.parse(readFileSync(join(root, 'scripts/entries.json'), 'utf8'))
const { config } = ts.readConfigFile(join(root, 'tsconfig.build.json'), ts.sys.readFile)
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
const program = ts.createProgram(
  Object.values(entries).map(file => join(root, file)),
  options,
)
const checker = program.getTypeChecker()
/** @type {Set<string>} */
const faults = new Set()

/** @param {string} entry as users import it */
function exportsOf(entry) {
  const source = program.getSourceFile(join(root, entries[entry.replace(/^spillway\/?/, '') || 'index'] ?? ''))
  const module = source && checker.getSymbolAtLocation(source)
  if (module === undefined) throw new Error(`${entry} is not an entry of the package`)
  const exported = checker.getExportsOfModule(module)
  return new Map(
    exported.map(symbol => [
      symbol.name,
      symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
    ]),
  )
}

/**
 * What a block names: an export, or, after a dot, the type of one of its members.
 * @param {string} entry
 * @param {string} path
 */
function find(entry, path) {
  const [name, member] = path.split('.')
  const symbol = exportsOf(entry).get(name)
  if (symbol === undefined) throw new Error(`${entry} does not export ${name}`)
  const type = checker.getDeclaredTypeOfSymbol(symbol)
  if (member === undefined) return { symbol, type }
  const inner = type.getProperty(member)
  if (inner === undefined) throw new Error(`${entry} ${name} has no ${member}`)
  const given = checker.getNonNullableType(checker.getTypeOfSymbol(inner))
  return { symbol: inner, type: (given.isUnion() && given.types.find(type => type.isClassOrInterface())) || given }
}

/** @param {ts.Node} node */
const hasOwnDoc = node => ts.getJSDocCommentsAndTags(node).length > 0

/** Its members that are public and written in this package, those of the class itself first. @param {ts.Type} type */
function membersOf(type) {
  const ofClass = type.isClass() ? checker.getTypeOfSymbol(type.symbol).getProperties() : []
  return [...ofClass, ...type.getProperties()].filter(symbol => {
    if (symbol.flags & ts.SymbolFlags.Prototype) return false
    const node = nodeOf(symbol)
    const isHidden = ts.isPrivateIdentifier(node.name) || ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Private
    // What a class implements without words of its own is described with the interface.
    if (ts.isClassLike(node.parent) && !hasOwnDoc(node) && symbol.getDocumentationComment(checker).length > 0)
      return false
    const isInternal = symbol.getJsDocTags().some(({ name }) => name === 'internal')
    return node.getSourceFile().fileName.startsWith(join(root, 'src')) && !isHidden && !isInternal
  })
}

/** @param {ts.Symbol} symbol @returns {ts.PropertySignature} for its common fields */
function nodeOf(symbol) {
  const [node] = symbol.declarations ?? []
  return /** @type {ts.PropertySignature} */ (node)
}

/** @param {ts.Symbol} symbol @param {string} owner */
function docOf(symbol, owner) {
  const text = ts
    .displayPartsToString(symbol.getDocumentationComment(checker))
    .replace(/\s*\n(?!\n|- )[ \t]*/g, ' ')
    .trim()
  if (text === '') faults.add(`${owner} ${symbol.name} has no docstring`)
  return text
}

/** Source text on one line. @param {string} text */
function flat(text) {
  const members = text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(?<=[^\s{;,(|&])\s*\n\s*(?=(?:readonly )?\w+\??:)/g, '; ')
  const line = members.replace(/\s+/g, ' ')
  return line.replace(/([([{<]) | (?=[)\]>])|,(?= ?\))|^ ?\| /g, '$1').trim()
}

/** A docstring in a cell of a table. @param {string} text */
const inCell = text => text.replace(/\s*\n(?:- )?/g, ' ').replaceAll('|', '\\|')

/** How a function or method is called. @param {ts.Symbol} symbol */
function signatureOf(symbol) {
  const node = /** @type {ts.FunctionDeclaration} */ (/** @type {ts.Node} */ (nodeOf(symbol)))
  const text =
    node.body === undefined ? node.getText() : node.getText().slice(0, node.body.getStart() - node.getStart())
  return flat(text)
    .replace(/^(?:(?:export|default|async|static|function) )+|;$/g, '')
    .replace('[asyncDispose]', '[Symbol.asyncDispose]')
}

/** @param {ts.Symbol} symbol */
const isCalled = symbol => (symbol.flags & (ts.SymbolFlags.Method | ts.SymbolFlags.Function)) !== 0

/**
 * Rows for what is read or given, items for what is called.
 * @param {readonly ts.Symbol[]} symbols
 * @param {string} owner
 */
function linesOf(symbols, owner) {
  const rows = symbols
    .filter(symbol => !isCalled(symbol))
    .map(symbol => {
      const { type } = nodeOf(symbol)
      const text = type ? flat(type.getText()) : checker.typeToString(checker.getTypeOfSymbol(symbol))
      const name = `${symbol.name}${symbol.flags & ts.SymbolFlags.Optional ? '?' : ''}`
      return `| \`${name}\` | \`${inCell(text)}\` | ${inCell(docOf(symbol, owner))} |`
    })
  const items = symbols
    .filter(isCalled)
    .map(symbol => `- \`${signatureOf(symbol)}\`\\\n  ${docOf(symbol, owner).replaceAll('\n', '\n  ')}`)
  const table = rows.length > 0 ? ['', '| name | type | meaning |', '| --- | --- | --- |', ...rows] : []
  return items.length > 0 ? [...table, '', ...items] : table
}

/** The nodes that blocks show: first those that blocks name, then in the order of the page. @type {Set<ts.Node>} */
const shown = new Set()
/** @param {ts.Symbol[]} symbols @param {string} owner */
function show(symbols, owner) {
  for (const symbol of symbols) shown.add(nodeOf(symbol))
  if (!owner.endsWith('Options')) return
  const examples = [...before.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code).join()
  for (const { name } of symbols) {
    if (!new RegExp(`\\b${name}\\b`).test(examples)) faults.add(`${owner} ${name} has no example`)
  }
}

/** @param {string} entry @param {string} path @param {string} names */
function namedMembers(entry, path, names) {
  const members = membersOf(find(entry, path).type)
  return names.split(', ').map(name => {
    const member = members.find(member => member.name === name)
    if (member === undefined) throw new Error(`${entry} ${path} has no ${name}`)
    return member
  })
}

/** @param {string} entry @param {string} path @param {string | undefined} names */
function blockOf(entry, path, names) {
  if (names !== undefined) return linesOf(namedMembers(entry, path, names), path)
  const { symbol, type } = find(entry, path)
  if (isCalled(symbol) || symbol.flags & ts.SymbolFlags.Variable) return linesOf([symbol], entry)
  const members = membersOf(type)
  const doc = path.includes('.') ? [] : ['', docOf(symbol, entry)]
  if (members.length === 0 && symbol.flags & ts.SymbolFlags.TypeAlias) {
    return ['', `\`${flat(nodeOf(symbol).getText()).replace(/^export |(?<== )\| /g, '')}\``, ...doc]
  }
  const own = members.filter(member => !shown.has(nodeOf(member)))
  show(own, path)
  return [...doc, ...linesOf(own, path)]
}

const before = readFileSync(page, 'utf8')
try {
  for (const [, entry, path, names] of before.matchAll(BLOCK)) if (names) show(namedMembers(entry, path, names), path)
  const after = before.replace(BLOCK, (_, entry, path, names) => {
    const head = `<!-- ${entry} ${path}${names === undefined ? '' : `: ${names}`} -->`
    return [head, ...blockOf(entry, path, names), '', '<!-- end -->'].join('\n')
  })
  for (const name of Object.keys(entries).filter(name => !DROP_INS.includes(name))) {
    const entry = name === 'index' ? 'spillway' : `spillway/${name}`
    for (const [name, symbol] of exportsOf(entry)) {
      if (name !== 'default' && !new RegExp(`\\b${name}\\b`).test(after))
        faults.add(`${entry} ${name} is not on the page`)
      if (symbol.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface)) {
        const missing = membersOf(checker.getDeclaredTypeOfSymbol(symbol)).filter(member => !shown.has(nodeOf(member)))
        for (const member of missing) faults.add(`${entry} ${name}.${member.name} is not on the page`)
      }
    }
  }
  if (faults.size > 0) throw new Error(['', ...faults].join('\n  '))
  if (!process.argv.includes('--check')) writeFileSync(page, after)
  else if (before !== after) throw new Error('docs/reference.md is stale: run `npm run reference`')
} catch (error) {
  console.error(`reference: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}
