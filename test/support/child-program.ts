import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildSync } from 'esbuild'

/** Inside the project, so that programs find its packages. */
const FOLDER = join(process.cwd(), 'node_modules/.cache/spillway-tests')

/**
 * The path of an ES module that does what this TypeScript does, with all of ours that it imports from './src/…' or
 * './test/…'. Compiled here, because a process that compiles by itself takes most of a second.
 */
export function childProgram(source: string): string {
  const { outputFiles } = buildSync({
    stdin: { contents: source, resolveDir: process.cwd(), loader: 'ts' },
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    packages: 'external',
    // The package says that its modules do nothing by being loaded; those of the tests do.
    ignoreAnnotations: true,
  })
  const [{ text }] = outputFiles
  const file = join(FOLDER, `${createHash('sha256').update(text).digest('hex').slice(0, 20)}.mjs`)
  if (!existsSync(file)) {
    mkdirSync(FOLDER, { recursive: true })
    // Somebody else may write the same: each as a whole.
    const whole = `${file}.${process.pid}`
    writeFileSync(whole, text)
    renameSync(whole, file)
  }
  return file
}
