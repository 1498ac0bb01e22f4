import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** What another file of bench/ prints when it runs by itself; undefined if there is no such file. */
export function printed(file: string): string | undefined {
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  if (!existsSync(path)) return undefined
  const { status, stdout } = spawnSync(process.execPath, ['--import', 'tsx', path], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`bench/${file} ended with code ${status}`)
  return stdout.trim()
}
