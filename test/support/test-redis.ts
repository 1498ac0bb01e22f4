import { afterAll, beforeAll } from '@jest/globals'
import { RedisServer, type RedisServerOptions } from './redis-server.js'

/**
 * A Redis that runs from before the first to after the last test of the file or of the `describe` block that declares
 * it.
 */
export function testRedis(options?: RedisServerOptions): RedisServer {
  const server = new RedisServer(options)
  beforeAll(() => server.start())
  afterAll(() => server.stop())
  return server
}
