import { access, constants, open, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { SpillwayError } from '../../core/errors.js'
import { shownGiven, UsageError } from '../arguments.js'

/**
 * Checks that the page can be written, so that an error comes before the log is read. Changes nothing: the log may turn out to be unreadable. Throws
 * `UsageError` if the file is the log itself, under any name, else `SpillwayError`.
 */
export async function checkPageFile(file: string, log: string): Promise<void> {
  const exists = await told(file, () => isWritable(file))
  if (!exists || log === '-') return
  const [page, read] = await Promise.all([stat(file), stat(log)])
  if (page.ino === read.ino && page.dev === read.dev) {
    throw new UsageError('--html: given the log itself, expected another file, like --html report.html')
  }
}

/** False if the file can be made; rejects if it cannot be written. */
async function isWritable(file: string): Promise<boolean> {
  try {
    await (await open(file, constants.O_WRONLY | constants.O_APPEND)).close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    await access(dirname(file), constants.W_OK)
    return false
  }
}

export function writePage(file: string, page: string): Promise<void> {
  return told(file, () => writeFile(file, page))
}

async function told<Result>(file: string, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write()
  } catch (cause) {
    throw new SpillwayError(`cannot write ${shownGiven(file)}: ${(cause as Error).message}`, { cause })
  }
}
