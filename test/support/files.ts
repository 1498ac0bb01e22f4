import { readdirSync } from 'node:fs'
import { join } from 'node:path'

export const root = join(__dirname, '../..')

/** Files below a folder of the project, as paths from the root with `/`, sorted. */
export function filesOf(folder: string, extension: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && entry.name.endsWith(extension) && !/node_modules/.test(entry.parentPath))
    .map(entry =>
      join(entry.parentPath, entry.name)
        .slice(root.length + 1)
        .replaceAll('\\', '/'),
    )
    .sort()
}
