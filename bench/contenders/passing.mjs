/**
 * Under load of this kind a decision may take longer than the default, and would be answered without the store.
 *
 * @type {{ deadline: string, onStoreFailure: 'closed' }}
 */
export const PATIENT = { deadline: '10s', onStoreFailure: 'closed' }

/**
 * The decision, which the store of a limiter with these options must have made. No promise of its own, which would be
 * measured, too.
 *
 * @template {{ readonly source: string }} Decision
 * @param {Decision} decision
 */
export function decidedByStore(decision) {
  if (decision.source === 'closed') throw new Error('a decision was not made by the store')
  return decision
}

/**
 * Decides by a limiter of rate-limiter-flexible, or of the drop-in for it: true if a request of this key passes.
 *
 * @param {{ consume(key: string): Promise<unknown> }} limiter
 */
export function passes(limiter) {
  return async (/** @type {string} */ key) => {
    try {
      await limiter.consume(key)
      return true
    } catch (denial) {
      if (denial instanceof Error) throw denial
      return false
    }
  }
}

/**
 * How many of 30 requests pass, for each of two keys.
 *
 * @param {(key: string) => Promise<boolean>} decide
 */
export async function passedOf30(decide) {
  const passed = []
  for (const key of ['a', 'b']) {
    let count = 0
    for (let i = 0; i < 30; i++) if (await decide(key)) count++
    passed.push(count)
  }
  return passed
}
