// Loaded before Bottleneck's own tests and the programs that they start: what they import as Bottleneck is ours.

/**
 * Node has no types for how it finds a module.
 * @type {{ _resolveFilename(request: string, parent?: { filename?: string | null }, ...rest: unknown[]): string }}
 */
const Module = /** @type {never} */ (require('node:module'))

const resolve = Module._resolveFilename
Module._resolveFilename = (request, parent, ...rest) => {
  const isEntry = parent?.filename?.endsWith('/bottleneck/test/bottleneck.js') && request.startsWith('../')
  return (isEntry && process.env.SPILLWAY_BOTTLENECK) || resolve(request, parent, ...rest)
}
