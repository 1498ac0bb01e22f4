import { type Bounds, FOLLOWER } from '../adaptive/follow-load.js'
import { type Limit, optionsOf, parsePolicy } from '../core/limit.js'
import { type ObjectFacts, objectId } from '../redis/object-index.js'
import { finite, objectOf, oneOf, parsed, type Shape, text, whole } from './shapes.js'

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

/** Somebody steers a rate by a load, within bounds. */
interface FollowerEntry {
  readonly kind: typeof FOLLOWER
  readonly id: string
  /** The rate. */
  readonly name: string
  readonly bounds: Bounds
}

/** That a service uses a limiter or an object; `name` is that of the service. */
interface UseEntry {
  readonly kind: 'use'
  readonly id: string
  readonly name: string
  readonly of: UsedKind
  readonly object: string
}

export type UsedKind = 'limit' | ObjectKind
export type Entry = LimitEntry | ObjectEntry | FollowerEntry | UseEntry

export function objectFacts(kind: ObjectKind, name: string): ObjectFacts {
  return { kind, name }
}

/** Notes for the uses of what has been noted, so that the dashboard can show what one service uses. */
export function useNotes(
  service: string,
  notes: ReadonlyArray<readonly [id: string, facts: ObjectFacts]>,
): Map<string, ObjectFacts> {
  return new Map(
    notes.map(([, { kind, name }]) => [
      objectId('use', service, kind, name),
      { kind: 'use', name: service, of: kind, object: name },
    ]),
  )
}

/** A limit as this version would make it: undefined where it has no such algorithm, window or zone. */
const readLimit: Shape<Limit> = given => {
  const limit = given as Limit
  try {
    return parsePolicy(optionsOf(limit))[0]
  } catch {
    return undefined
  }
}

const OBJECT = objectOf({ kind: oneOf(...OBJECT_KINDS), name: text })
const FOLLOWER_OF = objectOf({ kind: oneOf(FOLLOWER), name: text, min: whole, max: whole, intervalMs: finite })
const LIMIT = objectOf(
  { kind: oneOf('limit'), name: notEmpty, limit: readLimit },
  { per: text, store: oneOf('memory'), tags: (given: unknown) => ((given as number) > 0 ? whole(given) : undefined) },
)

const USE = objectOf({ kind: oneOf('use'), name: text, of: oneOf('limit', ...OBJECT_KINDS), object: text })

/** Undefined for an invalid entry. */
export function readEntry(id: string, json: string): Entry | undefined {
  const limit = parsed(json, LIMIT)
  if (limit !== undefined) return { ...limit, id, store: limit.store ?? 'redis' }
  const follower = parsed(json, FOLLOWER_OF)
  if (follower !== undefined) {
    const { kind, name, ...bounds } = follower
    return { kind, id, name, bounds }
  }
  const object = parsed(json, OBJECT) ?? parsed(json, USE)
  return object && { ...object, id }
}

function notEmpty(given: unknown): string | undefined {
  return given === '' ? undefined : text(given)
}
