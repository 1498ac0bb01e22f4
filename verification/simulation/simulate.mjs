// npm run simulate -- --seed 1 --schedules 100 --uses decisions,queue
// The whole client side and a server in one thread, over time, timers, randomness and a network that a seed decides.
import { rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { build } from 'esbuild'
import { listedModules, withOwnStates } from './module-states.cjs'

/**
 * Each simulated process has variables of its own in every module, as if it had loaded them itself: see ModuleState in
 * world.ts.
 */
const moduleStates = {
  name: 'module states',
  /** @param {import('esbuild').PluginBuild} build */
  setup(build) {
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8')
      const [, module] = /.*\/src\/(.*)$/.exec(path) ?? []
      loaded.add(module)
      // Texts of scripts, made by the build.
      if (module === 'redis/scripts.ts') return { contents: source, loader: 'ts' }
      return { contents: withOwnStates(module, source), loader: 'ts' }
    })
  },
}

/** The modules that are simulated. */
const loaded = new Set()
const outfile = new URL(`../../node_modules/.cache/spillway-simulation-${process.pid}.mjs`, import.meta.url)
await build({
  entryPoints: [new URL('run.ts', import.meta.url).pathname],
  outfile: outfile.pathname,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  packages: 'external',
  sourcemap: 'inline',
  logLevel: 'warning',
  // The package says that its modules do nothing when they are loaded; one here does.
  ignoreAnnotations: true,
  plugins: [moduleStates],
})
const gone = listedModules().filter(module => !loaded.has(module))
if (gone.length > 0) throw new Error(`module-states.cjs lists modules that are not simulated: ${gone.join(', ')}`)
process.once('exit', () => rmSync(outfile, { force: true }))
await import(outfile.href)
