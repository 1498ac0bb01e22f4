/** True if the client has all of these methods. Tells the kinds of clients apart. */
export function hasMethods(client: object, ...names: readonly string[]): boolean {
  return names.every(name => typeof (client as Record<string, unknown>)[name] === 'function')
}

/** True if a value is probably a Redis client, of any package: for messages. */
export function isLikeClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return ['evalsha', 'sendCommand', 'customCommand'].some(name => hasMethods(value, name))
}
