/**
 * Answers the requests of the parent process, one at a time, until the parent disconnects.
 *
 * @param {Record<string, (details: any) => unknown>} questions
 */
export function answer(questions) {
  process.on('message', async (/** @type {{ question: string, details: unknown }} */ { question, details }) => {
    try {
      process.send?.({ answer: await questions[question](details) })
    } catch (error) {
      process.send?.({ error: error instanceof Error ? error.stack : String(error) })
    }
  })
  process.on('disconnect', () => process.exit())
}

/** What this process is to be, as its parent wants it. */
export const setup = JSON.parse(process.argv[2] ?? '{}')
