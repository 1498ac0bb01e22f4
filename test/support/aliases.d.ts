// Older versions are installed under these names, beside test/versions and not by `npm ci`: editors and the type
// checker know them by the types of the current ones. test/versions/client-types.ts is checked with their own.
declare module 'express4' {
  import express = require('express')
  export = express
}

declare module 'koa2' {
  import Koa = require('koa')
  export = Koa
}

// Its instance has methods that the current one lacks.
declare module 'fastify4' {
  const fastify: (options?: object) => unknown
  export = fastify
}

declare module 'hono3' {
  export * from 'hono'
}

declare module 'mcp125/client/index.js' {
  export * from '@modelcontextprotocol/sdk/client/index.js'
}

declare module 'mcp125/inMemory.js' {
  export * from '@modelcontextprotocol/sdk/inMemory.js'
}

declare module 'mcp125/server/mcp.js' {
  export * from '@modelcontextprotocol/sdk/server/mcp.js'
}

declare module 'glide22' {
  export * from '@valkey/valkey-glide'
}

declare module 'ioredis5' {
  export * from 'ioredis'
}

declare module 'ioredis50' {
  export * from 'ioredis'
}

declare module 'iovalkey02' {
  export * from 'iovalkey'
}

declare module 'redis4' {
  export * from 'redis'
}

declare module 'redis46' {
  export * from 'redis'
}

declare module 'redis5' {
  export * from 'redis'
}

declare module 'upstash134' {
  export * from '@upstash/redis'
}

// It has no types.
declare module 'koa-ratelimit' {
  const ratelimit: (options: object) => import('koa').Middleware
  export = ratelimit
}
