// Draws the pictures of README.md and docs/: runs the code itself, so that a picture cannot show what the code does not
// do.
//
//   node --import tsx scripts/draw.ts            writes docs/*.svg
//   node --import tsx scripts/draw.ts --check    writes nothing; exit code 1 and one line when a picture is stale
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { drawings } from './drawing/drawings.js'

const docs = fileURLToPath(new URL('../docs/', import.meta.url))
const stale = [...drawings()].filter(([name, svg]) => {
  const file = join(docs, name)
  return !existsSync(file) || readFileSync(file, 'utf8') !== svg
})
if (!process.argv.includes('--check')) for (const [name, svg] of stale) writeFileSync(join(docs, name), svg)
else if (stale.length > 0) {
  const names = stale.map(([name]) => `docs/${name}`).join(', ')
  console.error(`draw: stale: ${names}: run \`node --import tsx scripts/draw.ts\``)
  process.exitCode = 1
}
