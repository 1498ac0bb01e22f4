#!/usr/bin/env node
// Builds dist/ from src/ and lua/, in two forms. Node loads CommonJS: a chunk for what several entry points share, and
// a thin ES module in front of each entry point, so that a process has one copy of the package, whichever way it is
// loaded. Bundlers load dist/esm/: each file of src/ as an ES module, of which they keep what a program uses. Types are
// bundled. Names of local variables are short in both; names that a stack trace shows are not. Does nothing when dist/
// was built from exactly these sources, so that `npm ci` and `npm test` need not wait; `--force` builds all the same.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deflateRawSync } from 'node:zlib'
import { rolldown } from 'rolldown'
import { dts } from 'rolldown-plugin-dts'
import ts from 'typescript'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const dist = join(root, 'dist')
const require = createRequire(import.meta.url)

/** Entry points: the name that users import after `spillway/` → the source. @type {Record<string, string>} */
const ENTRIES = JSON.parse(readFileSync(join(root, 'scripts/entries.json'), 'utf8'))
/**
 * Entry points whose `require` gives the default export itself, with all names as its properties, as the package that
 * they replace.
 */
const CALLABLE = new Set([
  ...['express', 'express-rate-limit', 'fastify', 'fetch', 'h3', 'hono', 'koa', 'koa-ratelimit', 'mcp', 'node', 'ws'],
])
/** Entry points whose `require` gives the class that is their default export, and has their other names as its own. */
const CLASSES = new Set(['bottleneck', 'bottleneck/light'])
/**
 * Entry points for packages that have ES modules only. TypeScript before 5.8 finds their types only from declarations
 * of an ES module, so these are whole, and do not lead to those for CommonJS.
 */
const BESIDE_ES_MODULES = new Set(['h3', 'nest'])
const COMMAND = { cli: 'src/operating/cli/main.ts' }

// Not in the tarball: see "files" in package.json.
const STAMP = '.built-from'

/** @param {string[]} args */
const succeeds = args => spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' }).status === 0

/** What a build depends on: the sources, their settings, the tools and this script. */
function fingerprint() {
  const settings = [
    'tsconfig.json',
    'tsconfig.build.json',
    'tsconfig.page.json',
    'package.json',
    'package-lock.json',
    'scripts/build.mjs',
    'scripts/entries.json',
  ]
  const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(root, join(entry.parentPath, entry.name)))
    .sort()
  const hash = createHash('sha256')
  for (const file of [...settings, ...sources]) hash.update(`\0${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

/**
 * Puts one folder in the place of another. Someone else may be building too: the later one wins.
 * @param {string} old
 * @param {string} fresh
 */
function replace(old, fresh) {
  for (let tries = 0; ; tries++) {
    try {
      rmSync(old, { recursive: true, force: true })
      renameSync(fresh, old)
      return
    } catch (error) {
      if (tries === 10) throw error
    }
  }
}

/**
 * @param {Record<string, string>} input
 * @param {import('rolldown').RolldownPluginOption[]} plugins
 */
function bundle(input, plugins = []) {
  const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const external = [/^node:/, ...Object.keys(peerDependencies).map(name => new RegExp(`^${name}(/|$)`))]
  return rolldown({ input, cwd: root, platform: 'node', external, plugins })
}

/**
 * The file that holds the names of an entry point; for one that is called, its own file holds the function.
 * @param {string} name
 */
const moduleOf = name => (CALLABLE.has(name) || CLASSES.has(name) ? `${name}-names` : name)
/** The same, as a file beside it is imported. @param {string} name */
const besides = name => `./${basename(moduleOf(name))}.js`
const inputs = Object.fromEntries(Object.entries(ENTRIES).map(([name, file]) => [moduleOf(name), file]))

/**
 * Chunks name what they share by a getter each. V8 does not compile such a call into its caller: a decision in memory
 * would take a tenth longer. No export is ever assigned anew, and they stand at the end of a chunk.
 * @param {string} code
 */
function withPlainExports(code) {
  const getter =
    /Object\.defineProperty\(exports, "([\w$]+)", \{\s*enumerable: true,\s*get: function\(\) \{\s*return ([\w$]+);\s*\}\s*\}\)/g
  return code.replace(getter, 'exports.$1 = $2')
}

/**
 * The package carries the texts of lua/ compressed: see src/redis/packed-texts.ts. Those of each room together, so that
 * a bundle has only the rooms that it uses; or, `whole`, all together, which is smaller.
 * @param {boolean} whole
 * @returns {import('rolldown').Plugin}
 */
const packLua = whole => ({
  name: 'pack-lua',
  transform(code, id) {
    if (!id.endsWith('/src/redis/scripts.ts')) return null
    const rooms = [...code.matchAll(/^const (\w+Texts) = (\{$[\s\S]*?^\})(?=\n\n)/gm)].map(([text, room, object]) => {
      /** @type {Record<string, string>} */
      const texts = new Function(`return ${object}`)()
      return { text, room, texts }
    })
    if (rooms.length === 0) throw new Error('src/redis/scripts.ts: expected "const …Texts = { … }"')
    let packed = code
    for (const { text, room, texts } of rooms) {
      packed = packed.replace(text, () => `const ${room} = ${whole ? 'allTexts' : packedText(texts)}`)
    }
    const all = whole ? `const allTexts = ${packedText(Object.assign({}, ...rooms.map(({ texts }) => texts)))}\n` : ''
    return `import { packedTexts } from './packed-texts.js'\n${all}${packed}`
  },
})

/** They share most of their lines: see `packedTexts`. @param {Record<string, string>} texts */
function packedText(texts) {
  /** @type {Map<string, number>} */
  const lines = new Map()
  const runs = Object.entries(texts).map(([name, text]) => {
    /** @type {number[]} */
    const runs = []
    for (const line of text.split('\n')) {
      if (!lines.has(line)) lines.set(line, lines.size)
      const number = Number(lines.get(line))
      if (number === runs[runs.length - 2] + runs[runs.length - 1]) runs[runs.length - 1]++
      else runs.push(number, 1)
    }
    return [name, runs]
  })
  const json = JSON.stringify([[...lines.keys()], Object.fromEntries(runs)])
  return `/* @__PURE__ */ packedTexts('${deflateRawSync(json, { level: 9 }).toString('base64')}')`
}

/** Bundlers need to be told what they may leave out; all other comments are for who reads the sources. */
const comments = { annotation: true, jsdoc: false, legal: false }

/**
 * Short names for what only its own function can name: functions and classes keep theirs, which stack traces show. For
 * Node lines stay lines; for bundlers, whose output is minified anyway, no white space stays.
 * @param {boolean} forBundlers @returns {import('rolldown').OutputOptions['minify']}
 */
function shortening(forBundlers) {
  const keepNames = { function: true, class: true }
  return {
    compress: forBundlers && { target: 'es2022', keepNames },
    mangle: { toplevel: false, keepNames },
    codegen: { removeWhitespace: forBundlers },
  }
}

/** @param {string} folder */
async function writeScripts(folder) {
  const bundled = await bundle({ ...inputs, ...COMMAND }, [packLua(true)])
  const chunkFileNames = 'chunks/[name].js'
  const minify = shortening(false)
  const { output } = await bundled.write({
    dir: folder,
    format: 'cjs',
    exports: 'named',
    comments,
    chunkFileNames,
    minify,
  })
  for (const { fileName } of output) {
    const file = join(folder, fileName)
    writeFileSync(file, withPlainExports(readFileSync(file, 'utf8')))
  }
  chmodSync(join(folder, 'cli.js'), 0o755)
  for (const name of Object.keys(ENTRIES)) {
    const all = Object.keys(require(join(folder, `${moduleOf(name)}.js`)))
    const names = all.filter(name => name !== 'default')
    if (all.includes('default')) names.push(`${nameOfDefault(folder, name)} as default`)
    // Named one by one: Node and bundlers agree on what `export { a } from` a CommonJS module means, not on its
    // default.
    writeFileSync(join(folder, `${name}.mjs`), `export { ${names.join(', ')} } from '${besides(name)}'\n`)
    if (CALLABLE.has(name)) writeFileSync(join(folder, `${name}.js`), callable(besides(name)))
    if (CLASSES.has(name)) {
      writeFileSync(join(folder, `${name}.js`), `'use strict'\nmodule.exports = require('${besides(name)}').default\n`)
    }
  }
}

/** For bundlers. @param {string} folder */
async function writeModules(folder) {
  const bundled = await bundle(ENTRIES, [packLua(false)])
  // What is not an entry point stands in a folder that package.json does not export.
  const entryFileNames = (/** @type {{ name: string }} */ { name }) =>
    Object.hasOwn(ENTRIES, name) ? '[name].js' : 'src/[name].js'
  const minify = shortening(true)
  const { output } = await bundled.write({
    dir: folder,
    format: 'es',
    comments,
    preserveModules: true,
    entryFileNames,
    minify,
  })
  /** @type {Set<string>} */
  const ofNode = new Set()
  // What is imported for types alone stays as an import without names, of which bundlers warn. No module does anything
  // when it is loaded.
  for (const { fileName } of output) {
    const file = join(folder, fileName)
    const code = readFileSync(file, 'utf8').replace(/(?<=^|;)import"\.{1,2}\/[^"]+";/g, '')
    for (const [, names] of code.matchAll(/(?<=^|;)import\{([^}]+)\}from"node:/g)) {
      for (const name of names.split(',')) ofNode.add(name.replace(/ as .*/, ''))
    }
    writeFileSync(file, code)
  }
  if (ofNode.size === 0) throw new Error('dist/esm: no name of a module of Node was found')
  // For browsers this stands in the place of Node's modules. Not an empty module: rollup, and so Vite, imports no name
  // that a module lacks.
  const absent = [...ofNode].map(name => `export const ${name} = undefined\n`)
  writeFileSync(join(folder, 'src/without-node.js'), absent.join(''))
  const browser = Object.fromEntries(
    ['crypto', 'timers', 'zlib'].map(name => [`node:${name}`, './src/without-node.js']),
  )
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', sideEffects: false, browser }))
}

/** The name under which an entry point also exports its default. @param {string} folder @param {string} name */
function nameOfDefault(folder, name) {
  const { default: main, ...names } = require(join(folder, `${moduleOf(name)}.js`))
  const [found] = Object.entries(names).find(([, value]) => value === main) ?? []
  if (found === undefined) throw new Error(`${ENTRIES[name]}: its default export needs a name too`)
  return found
}

/**
 * A module whose `require` gives the default export of another one, with all its names: the same function as `import`
 * gives. @param {string} names
 */
function callable(names) {
  return `'use strict'
const names = require('${names}')
module.exports = Object.assign(names.default, names)
`
}

/** @param {string} folder */
async function writeTypes(folder) {
  const bundled = await bundle(inputs, [dts({ emitDtsOnly: true, tsconfig: 'tsconfig.build.json', cwd: root })])
  await bundled.write({ dir: folder, format: 'es', chunkFileNames: 'chunks/[name].js' })
  for (const name of Object.keys(ENTRIES)) {
    const types = join(folder, `${moduleOf(name)}.d.ts`)
    const face = [`export * from '${besides(name)}'`]
    if (Object.hasOwn(require(join(folder, `${moduleOf(name)}.js`)), 'default'))
      face.push(`export { ${nameOfDefault(folder, name)} as default } from '${besides(name)}'`)
    if (CALLABLE.has(name)) {
      plainTypeExports(types)
      writeFileSync(join(folder, `${name}.d.ts`), callableTypes(folder, moduleOf(name)))
    }
    if (CLASSES.has(name)) {
      const main = nameOfDefault(folder, name)
      writeFileSync(join(folder, `${name}.d.ts`), `import { ${main} } from '${besides(name)}'\nexport = ${main}\n`)
    }
    const whole = BESIDE_ES_MODULES.has(name) && readFileSync(types, 'utf8')
    writeFileSync(join(folder, `${name}.d.mts`), whole || `${face.join('\n')}\n`)
  }
}

/** `export import Options = names.Options` cannot reach what is exported as `type Options`. @param {string} file */
function plainTypeExports(file) {
  const text = readFileSync(file, 'utf8')
  writeFileSync(
    file,
    text.replace(/^export \{.*\};?$/gm, list => list.replaceAll(/\btype (?=\w)/g, '')),
  )
}

/**
 * The types of `callable`: TypeScript has no other way into what `export =` gives than a namespace that names
 * everything.
 * @param {string} folder @param {string} module
 */
function callableTypes(folder, module) {
  const file = join(folder, `${module}.d.ts`)
  const program = ts.createProgram([file], { module: ts.ModuleKind.Node16, skipLibCheck: true, types: [] })
  const checker = program.getTypeChecker()
  const symbol = checker.getSymbolAtLocation(/** @type {ts.SourceFile} */ (program.getSourceFile(file)))
  const names = checker.getExportsOfModule(/** @type {ts.Symbol} */ (symbol)).map(({ name }) => name)
  return `import * as names from './${module}.js'
declare function entry(...args: Parameters<typeof names.default>): ReturnType<typeof names.default>
declare namespace entry {
${names.map(name => (name === 'default' ? '  export { entry as default }' : `  export import ${name} = names.${name}`)).join('\n')}
}
export = entry
`
}

async function build() {
  if (!succeeds(['--import', 'tsx', 'scripts/embed-lua.ts'])) return false
  if (!succeeds(['scripts/embed-page.mjs'])) return false
  const stamp = join(dist, STAMP)
  const print = fingerprint()
  const fresh = existsSync(stamp) && readFileSync(stamp, 'utf8') === print
  if (fresh && !process.argv.includes('--force')) return true

  // Built aside and then put in place whole: nothing stale stays, and whoever runs dist/ meanwhile finds all of it or
  // none.
  const fresher = `${dist}.${process.pid}`
  try {
    mkdirSync(fresher)
    writeFileSync(join(fresher, 'package.json'), '{ "type": "commonjs", "sideEffects": false }\n')
    await writeScripts(fresher)
    await writeModules(join(fresher, 'esm'))
    await writeTypes(fresher)
    writeFileSync(join(fresher, STAMP), print)
    replace(dist, fresher)
    return true
  } finally {
    rmSync(fresher, { recursive: true, force: true })
  }
}

if (!(await build())) {
  console.error('build: failed (see above); dist/ is as it was')
  process.exitCode = 1
}
