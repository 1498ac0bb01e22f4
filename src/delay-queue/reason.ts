const LONGEST_REASON = 1000

/** Why a message died, as its dead letter tells: at most 1000 characters. */
export function reasonOf(text: string): string {
  return text.slice(0, LONGEST_REASON)
}

/** The text of anything that was thrown. Never throws, whatever it is. */
export function textOf(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  } catch {
    return 'an error without a text'
  }
}
