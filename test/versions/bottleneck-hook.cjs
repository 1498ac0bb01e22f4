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

// Some of the tests connect to the default port.
if (process.env.DATASTORE === 'ioredis') {
  const { DEFAULT_REDIS_OPTIONS } = require('../../node_modules/ioredis/built/redis/RedisOptions.js')
  DEFAULT_REDIS_OPTIONS.port = Number(process.env.REDIS_PORT)
}
