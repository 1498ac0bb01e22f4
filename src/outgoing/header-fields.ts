/** Header fields of a response: `Headers`, or names with values, whose case does not matter. */
export type HeaderFields = Headers | Record<string, string | string[] | undefined>

/** Reads fields by their lower-case names; several fields of one name are joined by commas. undefined: there is none. Never throws. */
export function fieldReader(headers: HeaderFields): (name: string) => string | undefined {
  if (typeof headers !== 'object' || headers === null) return () => undefined
  const { get } = headers
  if (typeof get === 'function') return name => textOf((headers as Headers).get(name))
  const fields = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) {
    const text = textOf(Array.isArray(value) ? value.join(', ') : value)
    if (text !== undefined) fields.set(name.toLowerCase(), text)
  }
  return name => fields.get(name)
}

/** Values are not type-checked: a number counts as its text, anything else as absent. */
function textOf(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
}
