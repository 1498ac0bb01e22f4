#!/usr/bin/env node
// Embeds the scripts of lua/ into src/redis/scripts.ts, so that the package needs no file at run time and knows each hash in advance.
//
//   node scripts/embed-lua.mjs            writes the module (`npm run build` does, first of all; it is not committed)
//
// A script or a fragment takes in lua/lib/NAME.lua by a line of its own, `-- @include NAME`: once, where it is first asked for, after
// the fragments that it asks for itself. A step, which is a stretch of code and no function, is taken in wherever it is asked for, by
// `-- @include steps/NAME`; `-- @include steps/NAME with steps/OTHER` puts OTHER where NAME says `-- @here`: a loop with another
// body, where a call would cost too much. A folder given as an argument stands for the project's own (used by the tests).
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const INCLUDE = /^[ \t]*--[ \t]*@include\b[ \t]*(.*)$/
const HERE = /^[ \t]*--[ \t]*@here[ \t]*$/

// In this order: long comments, line comments, long strings, quoted strings, all else. Only a string may hold what looks like
// a comment, and only a comment may hold what looks like a string.
const TOKENS =
  /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|(\[(=*)\[[\s\S]*?\]\3\]|'(?:\\[\s\S]|[^'\\\n])*'|"(?:\\[\s\S]|[^"\\\n])*")|[^-['"]+|[\s\S]/g

/**
 * Lua without comments, indentation and blank lines. What stands inside a string stays as it is.
 * @param {string} lua
 */
function compact(lua) {
  /** @type {string[]} */
  const strings = []
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

/**
 * The source of a file with its fragments in place.
 * @param {string} file path below the Lua folder
 * @param {string} folder
 * @param {Set<string>} done fragments already in the source
 * @param {string[]} path the files being included, from the script down
 * @param {string} [guest] the fragment that stands where the file says so
 * @returns {string}
 */
function assemble(file, folder, done = new Set(), path = [], guest = undefined) {
  if (path.includes(file)) throw new Error(`lua/${file}: includes itself: ${[...path, file].join(' → ')}`)
  const full = join(folder, file)
  if (!existsSync(full)) throw new Error(`lua/${path.at(-1)}: includes lua/${file}, which does not exist`)
  const lines = readFileSync(full, 'utf8').replaceAll('\r\n', '\n').split('\n')
  const parts = lines.map((line, index) => {
    const wanted = HERE.test(line) ? guest : INCLUDE.exec(line)?.[1].trim()
    if (wanted === undefined) return line
    const [, name, other] = /^((?:steps\/)?[a-z][a-z0-9_-]*)(?: with (steps\/[a-z][a-z0-9_-]*))?$/.exec(wanted) ?? []
    if (name === undefined) {
      throw new Error(`lua/${file}:${index + 1}: given ${JSON.stringify(line.trim())}, expected "-- @include name"`)
    }
    if (name.startsWith('steps/')) return assemble(`${name}.lua`, folder, done, [...path, file], other)
    const fragment = `lib/${name}.lua`
    if (done.has(fragment)) return ''
    const source = assemble(fragment, folder, done, [...path, file])
    done.add(fragment)
    return source
  })
  return parts.join('\n')
}

/** @param {string} fileName */
function identifierOf(fileName) {
  const name = basename(fileName, '.lua').replace(/[-_]+(.)/g, (_, letter) => letter.toUpperCase())
  if (/^[a-z][A-Za-z0-9]*$/.test(name)) return name
  throw new Error(`lua/${fileName}: expected a name of lower-case words, like consume_all.lua`)
}

/** @param {string} text */
function templateLiteral(text) {
  return `\`${text.replace(/[\\`]|\$(?=\{)/g, '\\$&')}\``
}

/** @param {string} folder the folder that holds the .lua files */
function render(folder) {
  const files = existsSync(folder)
    ? readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .map(name => name.replaceAll('\\', '/'))
        .filter(name => name.endsWith('.lua') && !/^(lib|steps)\//.test(name))
        .sort()
    : []
  /** @type {Map<string, string>} */
  const seen = new Map()
  const scripts = files.map(file => {
    const identifier = identifierOf(file)
    const twin = seen.get(identifier)
    if (twin) throw new Error(`lua/${file} and lua/${twin} would both be called ${identifier}`)
    seen.set(identifier, file)
    const source = compact(assemble(file, folder))
    const sha1 = createHash('sha1').update(source).digest('hex')
    const name = basename(file, '.lua')
    return `export const ${identifier}: Script = {
  name: '${name}',
  sha1: '${sha1}',
  source: ${templateLiteral(source)},
}
`
  })
  const head = '// Generated from lua/ by `npm run embed`: change the .lua files, not this one.\n'
  return `${head}import type { Script } from './script.js'\n\n${scripts.join('\n')}`
}

const args = process.argv.slice(2)
const root = args.find(arg => !arg.startsWith('-')) ?? join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'src/redis/scripts.ts')
try {
  const text = render(join(root, 'lua'))
  const stale = !existsSync(target) || readFileSync(target, 'utf8') !== text
  if (stale) {
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, text)
  }
} catch (error) {
  console.error(`embed-lua: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}
