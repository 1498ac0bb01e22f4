import type { Decision } from '../../limiter/core/decision.js'
import { costOf, PolicyError, shown } from '../../limiter/core/errors.js'
import { optionsOf, type PolicyInput, parsePolicy } from '../../limiter/core/limit.js'
import { checkFunction, checkObject, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { randomText, sha256 } from '../../limiter/core/short-key.js'
import { Wait } from '../../limiter/core/wait.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import type { LimiterKey } from '../../limiter/key.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { type GivenKey, keyText } from '../call-option.js'
import { checkFits } from '../fitting-cost.js'
import { givenLimiter } from '../given-limiter.js'
import { NEWCOMERS } from '../newcomers.js'
import { type Admission, charge, look, warnOfFailure } from '../rate-limit/settling.js'
import { refuse } from '../refusal.js'

export type { GivenKey } from '../call-option.js'

/** A call of a tool, as the functions of the options receive it. */
export interface ToolCall {
  /** The name of the tool. */
  readonly tool: string
  /** Its arguments, as the client has sent them. */
  readonly args: unknown
  /** The session over HTTP; undefined over stdio, and without sessions. */
  readonly sessionId?: string
  /** Who is authorized, as the server's `authInfo` says: `{ clientId, token, scopes, extra }`. */
  readonly authInfo?: unknown
}

/** The options of `limitTools`. At least one of `policy`, `tools` and `limiter` has to be given. */
export interface LimitToolsOptions
  extends Pick<RateLimiterOptions, 'store' | 'name' | 'observer' | 'shadow' | 'deadline'> {
  /** For all tools together, for each key. It and the limits of the tool are decided together, all or none. */
  policy?: PolicyInput
  /**
   * The limits of single tools, by their names: `{ search: '10/1m' }`. A name that the server does not list is a
   * process warning at the first call (SPILLWAY_MCP_TOOL).
   */
  tools?: Readonly<Record<string, PolicyInput>>
  /**
   * The key by which calls count together; undefined: the call is not limited. Default: the client id of the
   * authorization, else the session, else one for the connection; over HTTP without both, one for all
   * (SPILLWAY_MCP_KEY).
   */
  key?: (call: ToolCall) => GivenKey | Promise<GivenKey>
  /** The cost of a call in units; integer ≥ 0, default 1. */
  cost?: number | ((call: ToolCall) => number | Promise<number>)
  /**
   * Default: none. What the call really cost, like the tokens of its result; integer ≥ 0, undefined: as charged. It is
   * given the result, or undefined if the tool failed or did not run any more. What it throws is a process warning
   * (SPILLWAY_SETTLE), and the first charge stands.
   */
  settle?: (call: ToolCall, result: unknown) => number | undefined | Promise<number | undefined>
  /** Counts every call under its own policy, in place of all options that a limiter has. */
  limiter?: RateLimiter
}

const LIMITER: OptionNames<Omit<LimitToolsOptions, 'key' | 'cost' | 'settle' | 'limiter'>> = {
  ...{ policy: true, tools: true, store: true, name: true, observer: true, shadow: true, deadline: true },
}
const OPTIONS: OptionNames<LimitToolsOptions> = { ...LIMITER, key: true, cost: true, settle: true, limiter: true }
const EXAMPLE = "{ policy: '100/1m', tools: { search: '10/1m' } }"

/** Of the proposal SEP-3304 of the protocol. */
const RATE_LIMITED = -32_023
/** All connections without an identity over HTTP: there a connection may be a request. */
const NO_IDENTITY = 'unknown'
/** For all servers without a store: sessions have a server each, and one client may have many sessions. */
let shared: MemoryStore | undefined
let warnedOfKey = false

/** A request that the SDK has not checked yet. */
interface ToolRequest {
  readonly params?: { readonly name?: unknown; readonly arguments?: unknown }
}
/** What the SDK gives to handlers beside the request. */
interface Extra {
  readonly signal?: AbortSignal
  readonly sessionId?: string
  readonly authInfo?: { readonly clientId?: string }
  /** Only over HTTP. */
  readonly requestInfo?: unknown
}
type Handler = (request: ToolRequest, extra: Extra) => unknown
/** A `Server` of the SDK. */
interface ToolServer {
  readonly _requestHandlers?: Map<string, Handler>
  readonly fallbackRequestHandler?: Handler
}

/**
 * Limits the tools of an MCP server: a `Server` or `McpServer` of @modelcontextprotocol/sdk 1.25 or later. Tools may be
 * registered before or afterwards. A call over a limit is answered with the JSON-RPC error −32023 and data
 * `{ retryAfterMs, limit, remaining, resetAfterMs, policy }` (ms; null: never), and the tool does not run. What fails or
 * is aborted has been spent, unless `settle` says otherwise. Checks its options: `PolicyError`, or `CostError` for a
 * constant cost. Experimental, until the proposal of the protocol is final.
 */
export function limitTools(server: object, options: LimitToolsOptions): void {
  const limits = new ToolLimits(options)
  const inner = ((server as { server?: object } | null)?.server ?? server) as ToolServer | null
  const handlers = inner?._requestHandlers
  if (typeof handlers?.get !== 'function') {
    throw new PolicyError(
      `limitTools: server ${shown(server)}: expected a Server or McpServer of @modelcontextprotocol/sdk 1.25 or later`,
    )
  }
  // Every request passes here, and the SDK registers one handler for all tools, with the first of them.
  const get = handlers.get.bind(handlers)
  handlers.get = method => {
    const handler = get(method)
    const call = handler ?? inner?.fallbackRequestHandler
    if (method !== 'tools/call' || call === undefined) return handler
    return (request, extra) => limits.call(request, extra, call, get('tools/list'))
  }
}

export default limitTools

class ToolLimits {
  readonly #options: LimitToolsOptions
  readonly #limiter: RateLimiter
  /** The names of the limits of all tools, and of those of single ones; undefined: they are those of a given limiter. */
  readonly #all: readonly string[] | undefined
  readonly #own = new Map<string, readonly string[]>()
  readonly #connection = randomText(22)
  #knowsTools = false

  constructor(options: LimitToolsOptions) {
    checkOptions('limitTools', options, OPTIONS, EXAMPLE, NEWCOMERS)
    const { policy, tools = {}, key, cost = 1, settle, limiter: _, ...others } = options
    if (key !== undefined) checkFunction(key, 'limitTools: key', '{ key: call => call.sessionId }')
    if (settle !== undefined) checkFunction(settle, 'limitTools: settle', '{ settle: (call, result) => 1 }')
    if (typeof cost !== 'function') costOf(cost, 'limitTools: cost')
    const given = givenLimiter('limitTools', options, Object.keys(LIMITER))
    this.#options = options
    if (given !== undefined) {
      this.#limiter = given
      checkFits('limitTools', 'call', cost, given)
      return
    }
    checkObject('limitTools: tools', tools, "{ search: '10/1m' }")
    const own = Object.entries(tools).flatMap(([tool, policy]) => {
      const limits = limitsOf(tool, policy)
      const names = limits.map(({ name }) => name as string)
      this.#own.set(tool, names)
      return limits
    })
    const all = policy === undefined ? [] : [policy].flat()
    if (all.length + own.length === 0) {
      throw new PolicyError(`limitTools: given no limit, expected one, like ${EXAMPLE}`)
    }
    shared ??= new MemoryStore()
    this.#limiter = new RateLimiter({ name: 'mcp', store: shared, ...others, policy: [...all, ...own] })
    checkFits('limitTools', 'call', cost, this.#limiter)
    this.#all = this.#limiter.policy.slice(0, -own.length || undefined).map(({ name }) => name)
  }

  async call(request: ToolRequest, extra: Extra, run: Handler, list: Handler | undefined): Promise<unknown> {
    const { name: tool, arguments: args } = request.params ?? {}
    // The SDK refuses it.
    if (typeof tool !== 'string') return run(request, extra)
    if (!this.#knowsTools) void this.#checkTools(list, extra)
    const { sessionId, authInfo } = extra
    const call: ToolCall = { tool, args, sessionId, authInfo }
    const key = this.#keyOf(tool, await this.#clientOf(call, extra))
    if (key === undefined) return run(request, extra)
    const { cost = 1, settle } = this.#options
    const units = costOf(typeof cost === 'function' ? await cost(call) : cost, 'limitTools: cost gave')
    const limiter = this.#limiter
    const paysLater = units === 0 && settle !== undefined
    const decision = await (paysLater ? look(limiter, key) : limiter.decide(key, units))
    if (!decision.allowed) throw refusal(tool, decision)
    const admission: Admission = { limiter, key, decision, paysLater }
    let result: unknown
    try {
      if (decision.delayMs > 0) await delayed(decision.delayMs, extra.signal)
      extra.signal?.throwIfAborted()
      result = await run(request, extra)
    } catch (error) {
      this.#settle(admission, call, undefined)
      throw error
    }
    // McpServer makes such a result of what a tool throws.
    const failed = (result as { isError?: boolean } | undefined)?.isError === true
    this.#settle(admission, call, failed ? undefined : result)
    return result
  }

  /** Who calls; undefined: the call is not limited. */
  async #clientOf(call: ToolCall, { authInfo, sessionId, requestInfo }: Extra): Promise<string | undefined> {
    const { key } = this.#options
    if (key !== undefined) return keyText(await key(call), 'limitTools')
    const client = authInfo?.clientId ?? sessionId
    if (client !== undefined || requestInfo === undefined) return client ?? this.#connection
    if (!warnedOfKey) {
      warnedOfKey = true
      emitWarning(
        'SPILLWAY_MCP_KEY',
        'limitTools: a call came over HTTP without authorization and without a session, so nothing tells clients apart, ' +
          'and all share one count: give the transport sessions (sessionIdGenerator), or say who calls, like ' +
          '{ key: call => call.authInfo?.extra.userId }',
      )
    }
    return NO_IDENTITY
  }

  /** The keys of all limits that hold for a tool; undefined: none does. */
  #keyOf(tool: string, client: string | undefined): LimiterKey | undefined {
    if (client === undefined || this.#all === undefined) return client
    const names = [...this.#all, ...(this.#own.get(tool) ?? [])]
    return names.length === 0 ? undefined : Object.fromEntries(names.map(name => [name, client]))
  }

  /** Not waited for: the client gets its result meanwhile. */
  async #settle(admission: Admission, call: ToolCall, result: unknown): Promise<void> {
    try {
      const cost = await this.#options.settle?.(call, result)
      if (cost !== undefined) charge(admission, costOf(cost, 'limitTools: settle gave'), 'limitTools: settle')
    } catch (error) {
      warnOfFailure('limitTools: settle', error)
    }
  }

  /** Warns of limits for tools that the server does not list; not waited for. */
  async #checkTools(list: Handler | undefined, extra: Extra): Promise<void> {
    this.#knowsTools = true
    const unknown = new Set(this.#own.keys())
    try {
      let cursor: string | undefined
      do {
        const page = (await list?.({ method: 'tools/list', params: { cursor } } as ToolRequest, extra)) as ToolList
        for (const { name } of page.tools) unknown.delete(name)
        cursor = page.nextCursor
      } while (cursor !== undefined && unknown.size > 0)
    } catch {
      // A server that does not list its tools may have them all.
      return
    }
    for (const tool of unknown) {
      emitWarning(
        'SPILLWAY_MCP_TOOL',
        `limitTools: tools has ${shown(tool)}, and the server lists no such tool: it limits nothing`,
      )
    }
  }
}

/** Resolves after `ms`, or when the call is aborted. */
function delayed(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Wait<void>({ timeoutMs, signal }, () => undefined).promise.catch(() => {})
}

interface ToolList {
  readonly tools: ReadonlyArray<{ readonly name: string }>
  readonly nextCursor?: string
}

/**
 * The limits of one tool, under names that no other tool has and no quota changes: 'search', then 'search:2'; a limit
 * with a name of its own is 'search:burst'.
 */
function limitsOf(tool: string, policy: PolicyInput) {
  try {
    return parsePolicy(policy).map((limit, index) => {
      const number = index === 0 ? '' : `:${index + 1}`
      const end = limit.namedAfter === undefined ? `:${limit.name}` : number
      const options = optionsOf({ ...limit, name: namePart(tool, 64 - end.length) + end, namedAfter: undefined })
      // A short window that is a number is told of, because it may be meant in seconds.
      return 'calendar' in options ? options : { ...options, window: `${limit.windowMs}ms` }
    })
  } catch (error) {
    throw new PolicyError(`limitTools: tools ${shown(tool)}: ${(error as Error).message}`)
  }
}

/**
 * The name of a tool as part of the name of a limit, which has at most 64 printable characters. What is left of another
 * name gets a hash of the whole: it may be left of several.
 */
function namePart(tool: string, length: number): string {
  const printable = tool.replace(/[^\x20-\x7e]/g, '?')
  if (printable === tool && tool.length <= length) return tool
  const hash = `~${sha256(tool).slice(0, 8)}`
  return printable.slice(0, Math.max(0, length - hash.length)) + hash
}

/** What the SDK answers as a JSON-RPC error. JSON has no Infinity. */
function refusal(tool: string, decision: Decision): Error {
  const { retryAfterMs, limit, remaining, resetAfterMs } = decision
  const wait = retryAfterMs === Number.POSITIVE_INFINITY ? null : retryAfterMs
  const data = { retryAfterMs: wait, limit: limit.quota, remaining, resetAfterMs, policy: limit.name }
  const text = refuse(decision, 429, undefined).body.text.trimEnd()
  return Object.assign(new Error(`${tool}: ${text}`), { code: RATE_LIMITED, data })
}
