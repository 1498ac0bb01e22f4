/**
 * Shapes of what is read from Redis. Any client may write there, and processes of other versions do: what has not the
 * expected shape is left out, and never fails a page. A shape returns the checked value, or undefined.
 */
export type Shape<T> = (given: unknown) => T | undefined

/** The farthest moment of a `Date`. */
const LAST_MS = 8.64e15

export const text: Shape<string> = given => (typeof given === 'string' ? given : undefined)

export const finite: Shape<number> = given => (Number.isFinite(given) ? (given as number) : undefined)

export const whole: Shape<number> = given =>
  Number.isSafeInteger(given) && (given as number) >= 0 ? (given as number) : undefined

/** Ms since the epoch, as far as a `Date` goes. */
export const moment: Shape<number> = given => {
  const at = finite(given)
  return at !== undefined && at >= 0 && at <= LAST_MS ? at : undefined
}

/** One of some texts. */
export function oneOf<T extends string>(...all: readonly T[]): Shape<T> {
  return given => all.find(each => each === given)
}

/** The elements that have the shape; a value that is no list is an empty one. */
export function listOf<T>(shape: Shape<T>): Shape<T[]> {
  return given => {
    const all: T[] = []
    if (!Array.isArray(given)) return all
    for (const each of given) {
      const read = shape(each)
      if (read !== undefined) all.push(read)
    }
    return all
  }
}

/** A list with one element for each shape. A fleet tells of thousands of keys, so nothing is made but the list. */
export function tuple<T extends readonly unknown[]>(...shapes: { readonly [I in keyof T]: Shape<T[I]> }): Shape<T> {
  return given => {
    if (!Array.isArray(given)) return undefined
    const read: unknown[] = new Array(shapes.length)
    for (let i = 0; i < shapes.length; i++) {
      read[i] = shapes[i](given[i])
      if (read[i] === undefined) return undefined
    }
    return read as unknown as T
  }
}

/** An object: `must` have all these fields, and those of `may` that have their shape; all others are left out. */
export function objectOf<Must extends object, May extends object = Record<never, never>>(
  must: { readonly [K in keyof Must]: Shape<Must[K]> },
  may?: { readonly [K in keyof May]: Shape<May[K]> },
): Shape<Must & Partial<May>> {
  return given => {
    if (typeof given !== 'object' || given === null) return undefined
    const from = given as Record<string, unknown>
    const read: Record<string, unknown> = {}
    for (const [name, shape] of Object.entries<Shape<unknown>>(must)) {
      read[name] = shape(from[name])
      if (read[name] === undefined) return undefined
    }
    for (const [name, shape] of Object.entries<Shape<unknown>>(may ?? {})) {
      const value = shape(from[name])
      if (value !== undefined) read[name] = value
    }
    return read as Must & Partial<May>
  }
}

/** JSON of a shape. */
export function parsed<T>(json: string | undefined, shape: Shape<T>): T | undefined {
  try {
    return shape(JSON.parse(json ?? ''))
  } catch {
    return undefined
  }
}
