const LONGEST_REASON = 1000

/** The reason in a dead letter: at most 1000 characters. */
export function reasonOf(text: string): string {
  return text.slice(0, LONGEST_REASON)
}

/** The text of any thrown value. Never throws. */
export function textOf(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  } catch {
    return 'an error without a text'
  }
}
