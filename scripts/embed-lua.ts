// Writes src/redis/scripts.ts: the scripts of lua/ as Redis receives them, each under its name in camel case, with its
// hash; one that names ALGORITHM as a record, by algorithm. `npm run build` runs this first; the result is not
// committed. A folder given as an argument stands for the project's own.
//   npm run lua -- consume_row token_bucket   prints a script whole, with its comments
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LuaBundler } from './bundle-lua.js'

/** The algorithms whose state is a row. */
const ROWS = ['fixed_window', 'leaky_bucket', 'sliding_counter', 'token_bucket']

interface Embedded {
  readonly name: string
  /** Its folder in lua/. */
  readonly room: string
  readonly source: string
}

function filesOf(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
  return entries.flatMap(entry => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? filesOf(path) : path.endsWith('.lua') ? [path] : []
  })
}

function identifierOf(name: string): string {
  return name.replace(/[-_/]+(.)/g, (_, letter: string) => letter.toUpperCase())
}

function templateLiteral(text: string): string {
  return `\`${text.replace(/[\\`]|\$(?=\{)/g, '\\$&')}\``
}

/**
 * A program that uses no script of a room is bundled without its texts: nothing here may look as if it did something
 * when it is loaded.
 */
function constructed({ name, room, source }: Embedded): string {
  const sha1 = createHash('sha1').update(source).digest('hex')
  return `/* @__PURE__ */ new LuaScript('${name}', '${sha1}', ${identifierOf(room)}Texts)`
}

const root = process.argv[2]?.includes('/') ? process.argv[2] : join(dirname(fileURLToPath(import.meta.url)), '..')
const folder = join(root, 'lua')
const read = (module: string) => readFileSync(join(folder, `${module.replaceAll('.', '/')}.lua`), 'utf8')
const modules = filesOf(folder).map(path =>
  relative(folder, path)
    .replace(/\.lua$/, '')
    .replaceAll('/', '.'),
)
const nameOf = (module: string) => module.slice(module.lastIndexOf('.') + 1)
/** Files that return a table of functions are no scripts. */
const scripts = modules.filter(module => !read(module).includes(`\nlocal ${nameOf(module)} = {}\n`))

/** The module that the package is built with. */
function render(): string {
  const bundler = new LuaBundler(read)
  const embedded: Embedded[] = []
  const exported: string[] = []
  for (const module of scripts) {
    const [name, room] = [nameOf(module), module.slice(0, module.lastIndexOf('.')).replaceAll('.', '/')]
    const built = (algorithm?: string): string => {
      const full = algorithm === undefined ? name : `${name}.${algorithm}`
      const script = { name: full, room, source: bundler.bundle(module, algorithm) }
      embedded.push(script)
      return constructed(script)
    }
    if (!/\bALGORITHM\b/.test(read(module))) exported.push(`export const ${identifierOf(name)} = ${built()}`)
    else exported.push(`export const ${identifierOf(name)} = {`, ...ROWS.map(row => `  ${row}: ${built(row)},`), '}')
  }
  const rooms = [...new Set(embedded.map(({ room }) => room))]
  return [
    '// Generated from lua/ by `npm run embed`: change the .lua files, not this one.',
    "import { LuaScript } from './script.js'",
    '',
    ...rooms.flatMap(room => [
      `const ${identifierOf(room)}Texts = {`,
      ...embedded
        .filter(one => one.room === room)
        .map(({ name, source }) => `  '${name}': ${templateLiteral(source)},`),
      '}',
      '',
    ]),
    ...exported,
    '',
  ].join('\n')
}

const target = join(root, 'src/redis/scripts.ts')
const asked = scripts.find(module => nameOf(module) === process.argv[2])
try {
  if (asked !== undefined) console.log(new LuaBundler(read, true).bundle(asked, process.argv[3]))
  else if (process.argv[2] !== undefined && root !== process.argv[2])
    throw new Error(`given ${process.argv[2]}, expected a script, like consume_row token_bucket`)
  else {
    const text = render()
    if (!existsSync(target) || readFileSync(target, 'utf8') !== text) {
      mkdirSync(dirname(target), { recursive: true })
      writeFileSync(target, text)
    }
  }
} catch (error) {
  console.error(`embed-lua: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}
