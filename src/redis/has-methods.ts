/** True if all of these are methods of the client: how one is told from another. */
export function hasMethods(client: object, ...names: readonly string[]): boolean {
  return names.every(name => typeof (client as Record<string, unknown>)[name] === 'function')
}
