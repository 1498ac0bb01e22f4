// Older major versions, which are tested in addition to the current ones, installed under these names. The tests use
// only types that do not differ from the current ones.
declare module 'express4' {
  import express = require('express')
  export = express
}

declare module 'koa2' {
  import Koa = require('koa')
  export = Koa
}

// It has no types.
declare module 'koa-ratelimit' {
  const ratelimit: (options: object) => import('koa').Middleware
  export = ratelimit
}
