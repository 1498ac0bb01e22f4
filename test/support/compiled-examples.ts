import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { transformFileSync } from '@swc/core'

/**
 * Compiles the examples into a folder of their own, and returns its name. Compiled once, because each process that
 * compiles by itself takes most of a second. The folder is inside the project, so that they find the package.
 */
export function compileExamples(
  names: readonly string[] = readdirSync('examples').filter(name => name.endsWith('.ts')),
): string {
  const folder = mkdtempSync('dist.examples-')
  for (const name of names) {
    const { code } = transformFileSync(join('examples', name), {
      jsc: {
        parser: { syntax: 'typescript', decorators: true },
        target: 'es2022',
        transform: { legacyDecorator: true },
      },
      module: { type: 'es6' },
    })
    writeFileSync(join(folder, name.replace('.ts', '.mjs')), code)
  }
  return folder
}
