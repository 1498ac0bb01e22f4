import { setTimeout as pause } from 'node:timers/promises'

/**
 * Asks every 10 ms until the answer is not false and no expectation fails; gives that answer. Rejects after
 * `timeoutMs` with `what` and the last error. The type leaves no check that may answer undefined by accident: it
 * answers true or false, or something to look at, or it only expects.
 */
export async function eventually(
  what: string,
  check: () => boolean | Promise<boolean>,
  timeoutMs?: number,
): Promise<void>
export async function eventually<Answer extends object | void>(
  what: string,
  ask: () => Answer | Promise<Answer>,
  timeoutMs?: number,
): Promise<Answer>
export async function eventually(what: string, ask: () => unknown, timeoutMs = 15_000): Promise<unknown> {
  const end = performance.now() + timeoutMs
  // A check that is never answered is over then, too.
  const over = pause(timeoutMs, false, { ref: false })
  for (let cause: unknown; ; await pause(10)) {
    const asked = async () => ask()
    const answer = await Promise.race([over, asked()]).catch(error => {
      cause = error
      return false
    })
    if (answer !== false) return answer
    if (performance.now() >= end) throw new Error(`${what}: not within ${timeoutMs} ms`, { cause })
  }
}
