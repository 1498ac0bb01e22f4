import { constants } from 'node:fs'
import { access, lstat, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/** Folders with what others wrote or a build made. */
const IGNORED = new Set(
  'node_modules bower_components .git .hg .svn .yarn dist build out coverage .next .nuxt .output .svelte-kit .turbo .cache .vercel .netlify'.split(
    ' ',
  ),
)
const PROGRAM = /\.[cm]?[jt]sx?$/
const MINIFIED = /\.min\.[cm]?js$/
/** Larger programs are bundles. */
const LARGEST_BYTES = 2_000_000

/** The programs of a folder and the folders in it, and its files package.json, in the order of their names; or the file itself. */
export async function* projectFiles(path: string): AsyncGenerator<string> {
  if (!(await stat(path)).isDirectory()) {
    yield path
    return
  }
  const entries = await readdir(path, { withFileTypes: true })
  // Links are not followed: what they lead to is found where it is, or is not of this project.
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const found = join(path, entry.name)
    if (entry.isDirectory() && !IGNORED.has(entry.name)) yield* projectFiles(found)
    if (!entry.isFile()) continue
    const isProgram = PROGRAM.test(entry.name) && !MINIFIED.test(entry.name)
    if (entry.name === 'package.json' || (isProgram && (await stat(found)).size <= LARGEST_BYTES)) yield found
  }
}

/** The text of a file, which `replaceFile` writes back byte by byte; undefined if it is not UTF-8. */
export async function readText(path: string): Promise<string | undefined> {
  const bytes = await readFile(path)
  const text = bytes.toString('utf8')
  return Buffer.from(text).equals(bytes) ? text : undefined
}

/**
 * Replaces a file as a whole: whoever reads it meanwhile, and a process that is killed, finds the old text or the new
 * one. Rejects with the system's error, or if the file has changed since it was read, and then leaves it as it is.
 */
export async function replaceFile(path: string, before: string, after: string): Promise<void> {
  if ((await lstat(path)).isSymbolicLink()) throw new Error('it is a link')
  await access(path, constants.W_OK)
  const beside = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`)
  try {
    await writeFile(beside, after, { flag: 'wx', mode: (await stat(path)).mode })
    if ((await readText(path)) !== before) throw new Error('it has changed meanwhile')
    await rename(beside, path)
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  }
}
