import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis as UpstashRedis } from '@upstash/redis'
import express, { type Express, type RequestHandler } from 'express'
import { Redis } from 'ioredis'
import { RestFront } from '../support/rest-front.js'

/** Declarations of the values that snippets use without creating them, in TypeScript. */
export const DECLARATIONS = `
declare const app: import('express').Express
declare const redis: import('ioredis').Redis
declare function sleep(ms: number): Promise<void>
declare function listen(app: import('express').Express | import('koa')): Promise<string>
declare const search: import('express').RequestHandler
declare const exportAll: import('express').RequestHandler
declare const chat: import('express').RequestHandler
declare const logIn: import('express').RequestHandler
declare const report: import('express').RequestHandler
declare const handle: import('express').RequestHandler
declare function convert(file: string, options: { signal: AbortSignal }): Promise<void>
declare function call(what: unknown): Promise<void>
`

/** koa-ratelimit has no types. */
export const UNTYPED = `
declare module 'koa-ratelimit' {
  const ratelimit: (options: { id: (ctx: import('koa').Context) => string; [option: string]: unknown }) => import('koa').Middleware
  export default ratelimit
}
`

/** The same values for one run, and how to close what the run has opened. */
export interface Prelude {
  readonly values: Record<string, unknown>
  /** ioredis, which connects to the server of the tests. */
  readonly clients: object
  /** @valkey/valkey-glide, which connects to the server of the tests. It is loaded when it is used. */
  readonly glide: object
  /** @upstash/redis, which speaks HTTP to a front of the server of the tests. */
  readonly upstash: object
  close(): Promise<void>
}

export async function prelude(url: string): Promise<Prelude> {
  const front = await RestFront.start({ port: Number(new URL(url).port) })
  const closing: Array<() => unknown> = [() => front.stop()]
  class TestRedis extends Redis {
    constructor() {
      super(url)
      this.on('error', () => {})
      closing.push(() => this.disconnect())
    }
  }
  const answer: RequestHandler = (_req, res) => void res.send('done')
  const values = {
    app: express() satisfies Express,
    redis: new TestRedis(),
    sleep,
    async listen(app: { listen(port: number): ReturnType<Express['listen']> }): Promise<string> {
      const server = app.listen(0)
      closing.push(() => {
        server.closeAllConnections()
        server.close()
      })
      await once(server, 'listening')
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    },
    ...Object.fromEntries(['search', 'exportAll', 'chat', 'logIn', 'report', 'handle'].map(name => [name, answer])),
    convert: () => sleep(1),
    call: () => sleep(1),
  }
  return {
    values,
    clients: { Redis: TestRedis },
    glide: {
      GlideClient: {
        async createClient(options: object) {
          const glide: typeof import('@valkey/valkey-glide') = require('@valkey/valkey-glide')
          glide.Logger.setLoggerConfig('off')
          const { hostname: host, port } = new URL(url)
          const client = await glide.GlideClient.createClient({ ...options, addresses: [{ host, port: Number(port) }] })
          closing.push(() => client.close())
          return client
        },
      },
    },
    upstash: {
      Redis: {
        fromEnv() {
          return new UpstashRedis({ ...front.access, enableTelemetry: false })
        },
      },
    },
    async close() {
      for (const close of closing.reverse()) await close()
    },
  }
}
