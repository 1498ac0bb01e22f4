import { afterIo } from '../limiter/core/clock.js'
import { type ClientPort, hasMethods, type ScriptArgument, type SendTerms } from './client.js'

/** The part of an `HttpClient` of @upstash/redis that is used here. */
interface Requester {
  /** `path` is [] for one command, ['pipeline'] for a list of them. */
  request(request: { path: string[]; body: unknown; signal: AbortSignal }): Promise<unknown>
  /** Absent in a requester of the user's own. */
  readonly options?: object
  readonly retry?: object
  readonly baseUrl?: string
}

/**
 * The part of a `Redis` of @upstash/redis that is used here. Its commands would parse texts that look like JSON, and
 * cannot be aborted: the requester below them does neither.
 */
interface UpstashLike {
  readonly client: Requester
}

export function isUpstash(client: object): client is UpstashLike {
  const { client: requester } = client as Partial<UpstashLike>
  if (typeof requester !== 'object' || requester === null) return false
  return hasMethods(requester, 'request') && hasMethods(client, 'evalsha', 'pipeline')
}

export function upstashPort(client: UpstashLike): ClientPort {
  const requests = requestsOf(client)
  const script = (
    command: string,
    text: string,
    keys: readonly string[],
    args: readonly ScriptArgument[],
    terms?: SendTerms,
  ) => requests.send([command, text, String(keys.length), ...keys, ...args.map(String)], terms)
  return {
    cluster: false,
    // What must not run twice is sent once: see `SendTerms`.
    sendsAgain: false,
    evalsha: (sha1, keys, args, terms) => script('EVALSHA', sha1, keys, args, terms),
    eval: (source, keys, args, terms) => script('EVAL', source, keys, args, terms),
    beforeSending: act => requests.before(act),
    zrem: (key, member) => requests.send(['ZREM', key, member]),
    // There is no connection that could be lost: a request fails, or ends by its deadline.
    state: () => 'ready',
    open() {},
    onReady: () => () => {},
    onLost() {},
    slotOf: () => 0,
    serverOf: () => '',
  }
}

/** One command. Rejects with the server's error. */
export function upstashCommand(client: UpstashLike, words: readonly string[]): Promise<unknown> {
  return requestsOf(client).send(words)
}

/** Nobody waits longer for an answer. */
const PATIENCE_MS = 5000
/** A server accepts requests up to a size. */
const MOST_COMMANDS = 100

interface Command {
  readonly words: readonly string[]
  readonly endsAt: number
  readonly mayRepeat: boolean
  resolve(reply: unknown): void
  reject(error: unknown): void
}

const REQUESTS = new WeakMap<Requester, Requests>()

function requestsOf({ client }: UpstashLike): Requests {
  let requests = REQUESTS.get(client)
  if (requests === undefined) {
    requests = new Requests(client)
    REQUESTS.set(client, requests)
  }
  return requests
}

/** Sends commands by HTTP: all of one turn of the event loop in one request. */
class Requests {
  readonly #requester: Requester
  #before: (() => void)[] = []
  #commands: Command[] = []
  #isDue = false

  constructor(requester: Requester) {
    this.#requester = requester
  }

  before(act: () => void): void {
    this.#before.push(act)
    this.#schedule()
  }

  send(words: readonly string[], { endsAt = Number.POSITIVE_INFINITY, mayRepeat = false }: SendTerms = {}) {
    return new Promise((resolve, reject) => {
      const latest = performance.now() + PATIENCE_MS
      this.#commands.push({ words, endsAt: Math.min(endsAt, latest), mayRepeat, resolve, reject })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#isDue) return
    this.#isDue = true
    afterIo(() => {
      const before = this.#before
      this.#before = []
      for (const act of before) act()
      this.#isDue = false
      const commands = this.#commands
      this.#commands = []
      for (let i = 0; i < commands.length; i += MOST_COMMANDS) this.#request(commands.slice(i, i + MOST_COMMANDS))
    })
  }

  async #request(commands: readonly Command[]): Promise<void> {
    const end = new AbortController()
    const fail = (error: unknown) => {
      for (const { reject } of commands) reject(error)
    }
    const endsAt = Math.max(...commands.map(command => command.endsAt))
    const timer = setTimeout(
      () => {
        fail(Object.assign(new Error('the HTTP request was not answered in time'), { name: 'TimeoutError' }))
        end.abort()
      },
      Math.max(0, endsAt - performance.now()),
    )
    const [first, ...more] = commands
    const mayRepeat = commands.every(command => command.mayRepeat)
    try {
      const requester = forOne(this.#requester, end.signal, mayRepeat)
      if (more.length === 0) settle(first, await requester.request({ path: [], body: first.words, signal: end.signal }))
      else {
        const body = commands.map(({ words }) => words)
        const answers = await requester.request({ path: ['pipeline'], body, signal: end.signal })
        for (const [i, command] of commands.entries()) settle(command, (answers as unknown[])[i])
      }
    } catch (error) {
      fail(inServerWords(error))
    } finally {
      clearTimeout(timer)
    }
  }
}

const ONCE = { attempts: 0, backoff: () => 0 }

/**
 * The client's requester for one request: with a signal, which versions before 1.35 only read from its options, and
 * without repetitions if they would do harm.
 */
function forOne(requester: Requester, signal: AbortSignal, mayRepeat: boolean): Requester {
  const { options, retry } = requester
  if (options === undefined || retry === undefined) return requester
  const own = { options: { ...options, signal }, retry: mayRepeat ? retry : ONCE }
  return new Proxy(requester, {
    get: (target, name) => Reflect.get(name in own ? own : target, name),
  })
}

function settle({ resolve, reject }: Command, answer: unknown): void {
  const { result, error } = (answer ?? {}) as { result?: unknown; error?: unknown }
  if (typeof error === 'string') reject(new Error(error))
  else if (result === undefined) reject(new Error('the answer to the HTTP request has no result'))
  else resolve(result)
}

/** The client adds the whole command to the server's words, and `fetch` hides the reason why it failed in its cause. */
function inServerWords(error: unknown): unknown {
  // Not `instanceof`: errors of `fetch` may be of another realm.
  const { message: words, cause } = (error ?? {}) as Partial<Error>
  const message = String(words ?? error).replace(/, command was: [\s\S]*$/, '')
  const reason = (cause as Error | undefined)?.message
  return new Error(reason ? `${message}: ${reason}` : message, { cause: error })
}
