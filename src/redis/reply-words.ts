/** What an error says, without the place in the script that Redis adds: it says nothing to whoever called. */
export function replyWords(error: unknown): string {
  if (error === undefined) return 'it did not answer'
  return String((error as Error)?.message).replace(/ script: [0-9a-f]{40}, on @user_script:\d+\.?$/, '')
}
