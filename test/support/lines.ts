import type { Redis } from 'ioredis'
import { eventually } from './eventually.js'

/** How many wait in the only line whose key has this form, of all processes. */
export async function lengthOf(client: Redis, form: string): Promise<number> {
  const [line] = await client.keys(form)
  return line === undefined ? 0 : client.zcard(line)
}

/** Resolves when so many wait in it. */
export const inLine = (client: Redis, form: string, count: number): Promise<void> =>
  eventually(`${count} wait`, async () => (await lengthOf(client, form)) === count)

/** How often a server was asked to run a script. */
export async function scriptCalls(client: Redis): Promise<number> {
  const info = await client.info('commandstats')
  return [...info.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0)
}
