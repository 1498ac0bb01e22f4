import { StoreError } from './core/errors.js'

/**
 * The answers of all parts of a change. If some fail, rejects with the error of the first of them, when all have ended;
 * it says `settled: false` only if no part was carried out.
 */
export async function allCarriedOut<T>(parts: readonly Promise<T>[]): Promise<T[]> {
  if (parts.length === 1) return [await parts[0]]
  const ends = await Promise.allSettled(parts)
  const failures = ends.flatMap(end => (end.status === 'rejected' ? [end.reason] : []))
  if (failures.length === 0) return ends.flatMap(end => (end.status === 'fulfilled' ? [end.value] : []))
  const [first] = failures
  const isNone = failures.length === ends.length && failures.every(({ settled }) => settled === false)
  if (isNone || first?.settled !== false) throw first
  throw new StoreError(first.message, { cause: first.cause ?? first })
}
