import { shown } from '../core/errors.js'

/**
 * How a message repeats what was given on the command line. A text that may be a URL or hold a password is not repeated: messages
 * end in logs and in screenshots.
 */
export function shownGiven(text: string): string {
  return /:\/\/|@/.test(text) ? '(not repeated here: it may hold a password)' : shown(text)
}
