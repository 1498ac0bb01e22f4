import { Redis } from 'ioredis'
import { createClient } from 'redis'
import type { RedisClient } from 'spillway'

interface BunClient {
  readonly connected: boolean
  onconnect: (() => unknown) | null
  evalsha(...args: never[]): unknown
  close(): void
}
const runtime = globalThis as { Bun?: { RedisClient: new (url: string, options: object) => BunClient } }

/** The clients that the cases run on. */
export const CLIENTS: Readonly<Record<string, () => Promise<Connection>>> = {
  ioredis,
  'node-redis': nodeRedis,
  ...(runtime.Bun && { Bun: bun }),
}

/** A connection of its own to the server of the tests. */
interface Connection {
  readonly client: RedisClient
  end(): Promise<unknown>
}

let names = 0

/** A name that no other case and no other process uses. */
export function freshName(): string {
  return `${process.env.RUN}-${++names}`
}

/** Runs `work` with two connections, as two processes would have, and ends them. */
export async function withTwo<Result>(
  open: () => Promise<Connection>,
  work: (one: RedisClient, other: RedisClient) => Promise<Result>,
): Promise<Result> {
  const connections = await Promise.all([open(), open()])
  try {
    return await work(connections[0].client, connections[1].client)
  } finally {
    await Promise.all(connections.map(connection => connection.end()))
  }
}

async function ioredis(): Promise<Connection> {
  const client = new Redis(process.env.REDIS_URL as string)
  return { client, end: () => client.quit() }
}

async function nodeRedis(): Promise<Connection> {
  const client = createClient({ url: process.env.REDIS_URL as string })
  client.on('error', error => console.error(error))
  await client.connect()
  return { client, end: () => client.close() }
}

async function bun(): Promise<Connection> {
  return openBun(process.env.REDIS_URL as string)
}

/** The client of Bun itself. */
export function openBun(url: string) {
  const client = new runtime.Bun!.RedisClient(url, { maxRetries: 2 ** 31 - 1 })
  return { client, end: async () => client.close() }
}
