import type { Limit } from '../core/limit.js'
import type { ObjectFacts } from '../redis/object-index.js'

/** The row with the sum of all decisions of all limiters. */
export const EVERYTHING = '*'

const OBJECT_KINDS = ['rate', 'semaphore', 'queue'] as const
export type ObjectKind = (typeof OBJECT_KINDS)[number]

/** A limit of a limiter, as recorded in the index of objects. */
export interface LimitEntry {
  readonly kind: 'limit'
  readonly id: string
  /** The limiter. */
  readonly name: string
  readonly limit: Limit
  /** What is counted: 'per address'; undefined if unknown. */
  readonly per?: string
  /** Where it is counted: only counts in Redis can be looked up and changed. */
  readonly store: 'redis' | 'memory'
  /** In a cluster: the number of hash tags over which its keys are spread. */
  readonly tags?: number
}

/** A shared rate, a semaphore or a queue. */
interface ObjectEntry {
  readonly kind: ObjectKind
  readonly id: string
  readonly name: string
}

export type Entry = LimitEntry | ObjectEntry

export function objectFacts(kind: ObjectKind, name: string): ObjectFacts {
  return { kind, name }
}

/** Any client may write to Redis: undefined for an invalid entry. */
export function readEntry(id: string, text: string): Entry | undefined {
  let facts: Record<string, unknown>
  try {
    facts = JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
  if (typeof facts !== 'object' || facts === null || typeof facts.name !== 'string') return undefined
  const { kind, name, per, tags } = facts
  if (OBJECT_KINDS.includes(kind as ObjectKind)) return { kind: kind as ObjectKind, id, name }
  if (kind !== 'limit') return undefined
  const limit = readLimit(facts.limit)
  if (limit === undefined) return undefined
  return {
    kind,
    id,
    name,
    limit,
    store: facts.store === 'memory' ? 'memory' : 'redis',
    ...(typeof per === 'string' && { per }),
    ...(Number.isSafeInteger(tags) && { tags: tags as number }),
  }
}

function readLimit(given: unknown): Limit | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const limit = given as Limit
  const numbers = [limit.quota, limit.windowMs, limit.burst].every(
    number => Number.isSafeInteger(number) && number >= 0,
  )
  const { calendar } = limit
  const dated = calendar === undefined || [calendar?.window, calendar?.timezone].every(part => typeof part === 'string')
  return numbers && dated && typeof limit.name === 'string' && typeof limit.algorithm === 'string' ? limit : undefined
}
