// Writes src/redis/scripts.ts: the scripts of lua/ as Redis receives them, each under its name in camel case, with its
// hash; those that are built for each algorithm in `consumeOne`. `npm run build` runs this first; the result is not
// committed. A folder given as an argument stands for the project's own (used by the tests).
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Assembled, LuaAssembler } from './assemble-lua.js'

function identifierOf(name: string): string {
  const identifier = name.replace(/[-_/]+(.)/g, (_, letter: string) => letter.toUpperCase())
  if (/^[a-z][A-Za-z0-9]*$/.test(identifier)) return identifier
  throw new Error(`the script ${name}: expected a name of lower-case words, like consume_all`)
}

function templateLiteral(text: string): string {
  return `\`${text.replace(/[\\`]|\$(?=\{)/g, '\\$&')}\``
}

/**
 * A program that uses no script of a room is bundled without its texts: nothing here may look as if it did something
 * when it is loaded.
 */
function constructed({ name, room, source }: Assembled): string {
  const sha1 = createHash('sha1').update(source).digest('hex')
  return `/* @__PURE__ */ new LuaScript('${name}', '${sha1}', ${textsOf(room)})`
}

function textsOf(room: string): string {
  return `${identifierOf(room)}Texts`
}

/** The module for a folder of Lua files. */
function render(folder: string): string {
  const names = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []
  const files = names
    .map(name => name.replaceAll('\\', '/'))
    .filter(name => name.endsWith('.lua'))
    .sort()
  const texts = files.map(file => [file.slice(0, -'.lua'.length), readFileSync(join(folder, file), 'utf8')])
  const scripts = new LuaAssembler(Object.fromEntries(texts)).scripts()
  const built = scripts.filter(({ algorithm }) => algorithm !== undefined)
  for (const { name, algorithm } of built) {
    const twin = built.find(other => other.algorithm === algorithm)?.name
    if (twin !== name) throw new Error(`the scripts ${twin} and ${name} are both built for ${algorithm}`)
  }
  return [
    '// Generated from lua/ by `npm run embed`: change the .lua files, not this one.',
    "import { LuaScript } from './script.js'",
    '',
    ...[...new Set(scripts.map(({ room }) => room))].flatMap(room => [
      `const ${textsOf(room)} = {`,
      ...scripts
        .filter(script => script.room === room)
        .map(({ name, source }) => `  '${name}': ${templateLiteral(source)},`),
      '}',
      '',
    ]),
    ...scripts
      .filter(({ algorithm }) => algorithm === undefined)
      .map(script => `export const ${identifierOf(script.name)} = ${constructed(script)}`),
    '',
    '/** Decides a batch under one limit, by the name of its algorithm. */',
    'export const consumeOne = {',
    ...built.map(script => `  '${script.algorithm}': ${constructed(script)},`),
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
