/** True if the client has all of these methods. Tells the kinds of clients apart. */
export function hasMethods(client: object, ...names: readonly string[]): boolean {
  return names.every(name => typeof (client as Record<string, unknown>)[name] === 'function')
}
