/** The message of an error, without the position in the script that Redis appends: callers do not know the script. */
export function replyWords(error: unknown): string {
  if (error === undefined) return 'it did not answer'
  return String((error as Error)?.message).replace(/ script: [0-9a-f]{40}, on @user_script:\d+\.?$/, '')
}
