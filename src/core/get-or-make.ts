/** A Map or a WeakMap. */
interface Register<Key, Value> {
  get(key: Key): Value | undefined
  set(key: Key, value: Value): unknown
}

/** The value of a key; if there is none, one is made and kept. */
export function getOrMake<Key, Value>(register: Register<Key, Value>, key: Key, make: () => NoInfer<Value>): Value {
  const known = register.get(key)
  if (known !== undefined) return known
  const made = make()
  register.set(key, made)
  return made
}
