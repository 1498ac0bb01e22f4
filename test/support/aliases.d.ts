// The older major versions that are tested beside the current ones, installed under these names. Their types differ from the
// current ones in nothing that the tests use.
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
