import { open, stat, writeFile } from 'node:fs/promises'
import { SpillwayError } from '../../core/errors.js'
import { UsageError } from '../arguments.js'
import { shownGiven } from '../shown-given.js'

/**
 * Checks that the page can be written, so that an error comes before the log is read. Throws `UsageError` if the file is the log itself, under
 * any name, else `SpillwayError`.
 */
export async function checkPageFile(file: string, log: string): Promise<void> {
  await told(file, async () => (await open(file, 'a')).close())
  const [page, read] = await Promise.all([stat(file), log === '-' ? undefined : stat(log)])
  if (page.ino === read?.ino && page.dev === read.dev) {
    throw new UsageError('--html: given the log itself, expected another file, like --html report.html')
  }
}

export function writePage(file: string, page: string): Promise<void> {
  return told(file, () => writeFile(file, page))
}

async function told(file: string, write: () => Promise<void>): Promise<void> {
  try {
    await write()
  } catch (cause) {
    throw new SpillwayError(`cannot write ${shownGiven(file)}: ${(cause as Error).message}`, { cause })
  }
}
