// Writes src/redis/scripts.ts: the files of lua/ without comments, a script for each file outside lib/, steps/ and algorithms/, and one for
// the section `consume` of each algorithm. The package
// puts a script together when it is first used (src/redis/assemble-lua.ts explains the directives). `npm run build` runs this first;
// the result is not committed. A folder given as an argument stands for the project's own (used by the tests).
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { algorithmOfSection, assembleLua, type LuaTexts } from '../src/redis/assemble-lua.js'

const DIRECTIVE = /^[ \t]*--[ \t]*@(include|here|choose|section)\b[ \t]*(.*)$/
const NAME = /^[a-z][a-z0-9_-]*$/
const INCLUDED = new RegExp(
  '^(?:NAME|STRETCH(?: with (?:STRETCH|algorithms/NAME))?)$'
    .replaceAll('STRETCH', '(?:steps/NAME|algorithms/NAME[.]NAME)')
    .replaceAll('NAME', '[a-z][a-z0-9_-]*'),
)

// In this order: long comments, line comments, long strings, quoted strings, all else. Only a string may hold what looks like
// a comment, and only a comment may hold what looks like a string.
const TOKENS =
  /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|(\[(=*)\[[\s\S]*?\]\3\]|'(?:\\[\s\S]|[^'\\\n])*'|"(?:\\[\s\S]|[^"\\\n])*")|[^-['"]+|[\s\S]/g

/** Lua without comments, indentation and blank lines. Strings stay as they are. */
function compact(lua: string): string {
  const strings: string[] = []
  let code = ''
  for (const [token, , string] of lua.matchAll(TOKENS)) {
    if (string !== undefined) code += `\0${strings.push(string) - 1}\0`
    else if (token.startsWith('--')) code += ' '
    else code += token
  }
  const lines = code.split('\n').map(line => line.trim())
  return lines
    .filter(line => line !== '')
    .join('\n')
    .replace(/\0(\d+)\0/g, (_, index) => strings[index])
}

/** One file as the package carries it: compact, its directives marked by `@` instead of standing in comments. */
function textOf(path: string, file: string): string {
  const lines = readFileSync(path, 'utf8').replaceAll('\r\n', '\n').split('\n')
  const marked = lines.map((line, index) => {
    const [, word, name] = DIRECTIVE.exec(line) ?? []
    if (word === undefined) return line
    if (word === 'here' && name === '') return '@here'
    if (word === 'include' && INCLUDED.test(name.trim())) return `@include ${name.trim()}`
    if (word !== 'include' && NAME.test(name.trim())) return `@${word} ${name.trim()}`
    throw new Error(`lua/${file}:${index + 1}: given ${JSON.stringify(line.trim())}, expected "-- @include name"`)
  })
  return compact(marked.join('\n'))
}

/** The texts of one file: itself, or for a file of algorithms/ its sections. */
function textsOf(path: string, file: string): [name: string, text: string][] {
  const text = textOf(path, `${file}.lua`)
  const [head, ...parts] = `\n${text}`.split('\n@section ')
  if (!file.startsWith('algorithms/') && parts.length === 0) return [[file, text]]
  if (!file.startsWith('algorithms/') || head !== '' || parts.length === 0) {
    throw new Error(`lua/${file}.lua: expected "-- @section name" first, and in files of lua/algorithms only`)
  }
  return parts.map(part => {
    const [section, ...lines] = part.split('\n')
    return [`${file}.${section}`, lines.join('\n')]
  })
}

function identifierOf(file: string): string {
  const name = basename(file).replace(/[-_]+(.)/g, (_, letter: string) => letter.toUpperCase())
  if (/^[a-z][A-Za-z0-9]*$/.test(name)) return name
  throw new Error(`lua/${file}.lua: expected a name of lower-case words, like consume_all.lua`)
}

function templateLiteral(text: string): string {
  return `\`${text.replace(/[\\`]|\$(?=\{)/g, '\\$&')}\``
}

/** The module for a folder of Lua files. Puts every script together once, so that a wrong directive fails here. */
function render(folder: string): string {
  const names = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []
  const files = names
    .map(name => name.replaceAll('\\', '/'))
    .filter(name => name.endsWith('.lua'))
    .map(name => name.slice(0, -'.lua'.length))
    .sort()
  const texts: LuaTexts = Object.fromEntries(files.flatMap(file => textsOf(join(folder, `${file}.lua`), file)))
  const scripts = files.filter(file => !/^(lib|steps|algorithms)\//.test(file))
  const lone = Object.keys(texts).filter(file => file.endsWith('.consume'))
  for (const file of lone) assembleLua(file, texts)
  const identifiers = new Map<string, string>()
  for (const file of scripts) {
    const identifier = identifierOf(file)
    const twin = identifiers.get(identifier)
    if (twin !== undefined) throw new Error(`lua/${file}.lua and lua/${twin}.lua would both be called ${identifier}`)
    identifiers.set(identifier, file)
    assembleLua(file, texts)
  }
  return [
    '// Generated from lua/ by `npm run embed`: change the .lua files, not this one.',
    "import { LuaScript } from './script.js'",
    '',
    'const texts = {',
    ...Object.entries(texts).map(([file, text]) => `  '${file}': ${templateLiteral(text)},`),
    '}',
    '',
    ...[...identifiers].map(([identifier, file]) => `export const ${identifier} = new LuaScript('${file}', texts)`),
    '',
    '/** Decides a batch under one limit, by the name of its algorithm. */',
    'export const consumeOne = {',
    ...lone.map(file => `  '${algorithmOfSection(file)}': new LuaScript('${file}', texts),`),
    '}',
    '',
  ].join('\n')
}

const root = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'src/redis/scripts.ts')
try {
  const text = render(join(root, 'lua'))
  if (!existsSync(target) || readFileSync(target, 'utf8') !== text) {
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, text)
  }
} catch (error) {
  console.error(`embed-lua: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}
