// Compiled, not run: code typed against express-rate-limit accepts our types, and the other way round.
import type { Request, Response } from 'express'
import express from 'express'
import * as theirs from 'express-rate-limit'
import * as ours from '../../../src/replacing/express-rate-limit/index.js'

/** A service's own code, written against the types of express-rate-limit. */
class TheirKindOfStore implements theirs.Store {
  localKeys = false
  prefix = 'mine:'
  init(options: theirs.Options): void {
    void options.windowMs
  }
  async get(key: string): Promise<theirs.ClientRateLimitInfo | undefined> {
    return key ? { totalHits: 1, resetTime: new Date() } : undefined
  }
  async increment(_key: string): Promise<theirs.IncrementResponse> {
    return { totalHits: 1, resetTime: undefined }
  }
  async decrement(_key: string): Promise<void> {}
  async resetKey(_key: string): Promise<void> {}
}

/** The same after the change of one import. */
class OurKindOfStore implements ours.Store {
  localKeys = false
  prefix = 'mine:'
  init(options: ours.Options): void {
    void options.windowMs
  }
  async get(key: string): Promise<ours.ClientRateLimitInfo | undefined> {
    return key ? { totalHits: 1, resetTime: new Date() } : undefined
  }
  async increment(_key: string): Promise<ours.IncrementResponse> {
    return { totalHits: 1, resetTime: undefined }
  }
  async decrement(_key: string): Promise<void> {}
  async resetKey(_key: string): Promise<void> {}
}

const theirOptions: Partial<theirs.Options> = {
  windowMs: 1000,
  limit: async (req: Request, _res: Response) => (req.ip ? 1 : 2),
  standardHeaders: 'draft-8',
  handler: (_req, res, next, used: theirs.Options) => (used.limit ? void res.end() : next()),
  keyGenerator: req => theirs.ipKeyGenerator(req.ip!, 64),
  validate: { trustProxy: false, default: true },
  store: new TheirKindOfStore(),
}

// Options and stores typed by theirs are taken by ours.
ours.rateLimit(theirOptions)
ours.default({ ...theirOptions, algorithm: 'token-bucket' })
ours.rateLimit({ store: new TheirKindOfStore() })
ours.rateLimit({ store: new theirs.MemoryStore() })
// Our stores are taken by theirs.
theirs.rateLimit({ store: new ours.MemoryStore() })
theirs.rateLimit({ store: new ours.RedisStore({ client: {} }) })
theirs.rateLimit({ store: new OurKindOfStore() })
// Informations and handlers are the same.
export const info: theirs.RateLimitInfo = {} as ours.RateLimitInfo
export const sameInfo: ours.RateLimitInfo = {} as theirs.RateLimitInfo
export const handler: theirs.RateLimitRequestHandler = ours.rateLimit()
export const sameHandler: ours.RateLimitRequestHandler = theirs.rateLimit()
export const legacy: theirs.LegacyStore = {} as ours.LegacyStore
export const exceeded: ours.RateLimitExceededEventHandler = (req, res, next, options) => {
  const { rateLimit } = req as ours.AugmentedRequest
  if (rateLimit.used > rateLimit.limit + 1) next()
  else res.status(options.statusCode).send(options.message)
}
export const enabled: ours.EnabledValidations = { ip: true, creationStack: false } satisfies theirs.EnabledValidations
export const logger: ours.Logger = { error: console.error, warn: console.warn } satisfies theirs.Logger
export const value: ours.ValueDeterminingMiddleware<number> = {} as theirs.ValueDeterminingMiddleware<number>
export const names: readonly string[] = [
  'rateLimit',
  'default',
  'MemoryStore',
  'ipKeyGenerator',
  'SECOND',
  'MINUTE',
  'HOUR',
  'DAY',
] satisfies (keyof typeof theirs & keyof typeof ours)[]

const app = express()
app.use(ours.rateLimit())
app.get('/', (req, res) => {
  res.json((req as ours.AugmentedRequest).rateLimit.resetTime?.getTime())
})
// @ts-expect-error: no such draft
ours.rateLimit({ standardHeaders: 'draft-9' })
// @ts-expect-error: no such algorithm
ours.rateLimit({ algorithm: 'magic' })
