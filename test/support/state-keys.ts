import type { Redis } from 'ioredis'

/**
 * All keys of a server, without the dashboard's index: in it, a process records its objects ten seconds after they were
 * built.
 */
export async function stateKeys(client: Redis): Promise<string[]> {
  return (await client.keys('*')).filter(key => !key.includes('{!dashboard}'))
}
