import { shown } from '../core/errors.js'

/**
 * How messages repeat a command line argument. A text that may be a URL or contain a password is not repeated: messages
 * end up in logs and screenshots.
 */
export function shownGiven(text: string): string {
  return /:\/\/|@/.test(text) ? '(not repeated here: it may hold a password)' : shown(text)
}
