import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The name and version in the nearest package.json above the program that runs, else above the folder it was started in. */
export function ownService(): { name: string; version: string } {
  const [, program] = process.argv
  const starts = [...(program === undefined ? [] : [dirname(program)]), process.cwd()]
  for (const start of starts) {
    for (let folder = start; ; folder = dirname(folder)) {
      const found = packageIn(folder)
      if (found !== undefined) return found
      if (dirname(folder) === folder) break
    }
  }
  return { name: 'service', version: '' }
}

function packageIn(folder: string): { name: string; version: string } | undefined {
  try {
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>
    return typeof name === 'string' ? { name, version: typeof version === 'string' ? version : '' } : undefined
  } catch {
    return undefined
  }
}
