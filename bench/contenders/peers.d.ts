// The peers are there only when bench/ is installed, and types are checked without: nothing is known of them here.
declare module 'better-sqlite3'
declare module 'koa-ratelimit'
declare module 'rate-limit-redis'
declare module 'rate-limiter-flexible'
declare module 'redis-semaphore'
declare module 'bullmq'
declare module 'autocannon' {
  /** A promise of the result that tells of each response meanwhile. */
  interface Cannon extends PromiseLike<unknown> {
    on(event: 'response', listener: (client: unknown, status: number, bytes: number, responseMs: number) => void): void
    on(event: 'reqError', listener: () => void): void
  }
  export default function autocannon(options: Record<string, unknown>): Cannon
}
