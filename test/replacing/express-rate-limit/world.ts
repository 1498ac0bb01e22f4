import { jest } from '@jest/globals'
import express, { type Express, type NextFunction, type Request, type RequestHandler, type Response } from 'express'
import theirs, { MemoryStore as TheirStore } from 'express-rate-limit'
import ours, { MemoryStore as OurStore } from '../../../src/replacing/express-rate-limit/index.js'
import { wholeFor } from '../../support/everywhere.js'
import { type Answer, get } from '../../support/get.js'
import { older } from '../../support/older.js'

/** The import of a service: the one line that a user changes. */
export interface Module {
  readonly name: string
  readonly rateLimit: typeof ours
  readonly MemoryStore: new () => OurStore
}

export const OURS: Module = { name: 'spillway/express-rate-limit', rateLimit: ours, MemoryStore: OurStore }
export const THEIRS: Module = {
  name: 'express-rate-limit',
  rateLimit: theirs as unknown as typeof ours,
  MemoryStore: TheirStore as unknown as new () => OurStore,
}

export const START = 1_700_000_000_400

/** What TypeScript sees, and our module leaves to it. */
const LEFT_TO_TYPES = [
  'ERR_ERL_HEADERS_UNSUPPORTED_DRAFT_VERSION',
  'ERR_ERL_UNKNOWN_VALIDATION',
  'WRN_ERL_DEPRECATED_DRAFT_POLLI_HEADERS',
  'WRN_ERL_DEPRECATED_ON_LIMIT_REACHED',
]

const FRAMEWORKS = wholeFor(false).orFew<[name: string, create: () => Express]>(
  [
    ['Express 5', express],
    ...older('express4', (express4: typeof express): [string, () => Express] => ['Express 4', express4]),
  ],
  1,
)

/** A service and what it logs, written against either module. */
export class World {
  readonly rateLimit: typeof ours
  readonly MemoryStore: Module['MemoryStore']
  /** `[level, code or message, text]` of all that was logged. */
  readonly logged: unknown[][] = []
  readonly logger = {
    error: (error: unknown, text?: string) => this.#log('error', error, text),
    warn: (error: unknown, text?: string) => this.#log('warn', error, text),
  }

  constructor(
    module: Module,
    readonly create: () => Express,
  ) {
    this.rateLimit = module.rateLimit
    this.MemoryStore = module.MemoryStore
  }

  /** A limiter that logs here. */
  limiter: typeof ours = options => this.rateLimit({ logger: this.logger, ...options })

  /** Answers with the properties that the limiters set on the request, or as `handle` does. */
  serve(limiters: RequestHandler | RequestHandler[], handle: RequestHandler = tell): Express {
    const app = this.create()
    // One proxy: so that a test says whose request it is.
    app.set('trust proxy', 1)
    app.use(...[limiters].flat(), handle)
    app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
      res.status(500).json({ error: error.message })
    })
    return app
  }

  async get(app: Express, from = '192.0.2.1', headers: Record<string, string> = {}): Promise<Omit<Answer, 'body'>> {
    const { status, text, headers: all } = await get(app, { 'X-Forwarded-For': from, ...headers })
    // Ours is always Node's own date, by the real clock.
    const { connection, date, 'keep-alive': _, ...rest } = all
    return { status, text, headers: rest }
  }

  async times(count: number, app: Express, from?: string): Promise<Omit<Answer, 'body'>[]> {
    const answers: Omit<Answer, 'body'>[] = []
    for (let i = 0; i < count; i++) answers.push(await this.get(app, from))
    return answers
  }

  statuses = async (count: number, app: Express, from?: string) =>
    (await this.times(count, app, from)).map(({ status }) => status)

  advance(ms: number): void {
    jest.setSystemTime(Date.now() + ms)
  }

  /** Waits for all work in progress: client and service are one process, so turns of its event loop suffice. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 10; turn++) await new Promise(resolve => setImmediate(resolve))
  }

  #log(level: string, error: unknown, text?: string): void {
    const { code, message } = error as { code?: string; message: string }
    if (code !== undefined && LEFT_TO_TYPES.includes(code)) return
    this.logged.push([level, code ?? message, text?.replace('spillway/express-rate-limit', 'express-rate-limit')])
  }
}

const tell: RequestHandler = (req, res) => {
  const { rateLimit = null, other = null } = req as unknown as Record<string, { current: number } | null>
  res.json({ rateLimit, current: rateLimit?.current, other })
}

/** A scenario must have the same result with our module as with theirs. */
export async function sameOnBoth(scenario: (world: World) => Promise<unknown> | unknown): Promise<unknown> {
  let last: unknown
  for (const [name, create] of FRAMEWORKS) {
    const [expected, seen] = [await observe(scenario, THEIRS, create), await observe(scenario, OURS, create)]
    const { expect } = await import('@jest/globals')
    expect([name, seen]).toEqual([name, expected])
    last = seen
  }
  return last
}

async function observe(scenario: (world: World) => unknown, module: Module, create: () => Express): Promise<unknown> {
  const REAL = [
    'setTimeout',
    'setInterval',
    'setImmediate',
    'nextTick',
    'queueMicrotask',
    'performance',
    'hrtime',
  ] as const
  const CLEAR = ['clearTimeout', 'clearInterval', 'clearImmediate'] as const
  jest.useFakeTimers({ now: START, doNotFake: [...REAL, ...CLEAR] })
  try {
    const world = new World(module, create)
    const seen = await scenario(world)
    return { seen, logged: world.logged }
  } finally {
    jest.useRealTimers()
  }
}
