import type { IncomingMessage } from 'node:http'
import { PolicyError, shown } from '../../../limiter/core/errors.js'
import { checkOptions, type OptionNames } from '../../../limiter/core/options.js'
import type { RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { keyRoot } from '../../../redis/keys.js'
import type { LivePolicies } from '../../live/live-policies.js'

import type { AnyRequest } from './exchange.js'
import type { KeyStyle } from './key-views.js'

/** What a user may do: look, look and change, or nothing; with a name for the history. */
export type DashboardAccess = 'read' | 'write' | false | NamedAccess

/** Access with a name. */
export interface NamedAccess {
  /** What the user may do. */
  readonly access: 'read' | 'write'
  /** The name in the history of changes. */
  readonly user: string
}

/** Options of `dashboard`. `Req`: what `authorize` gets, a `Request` where the handler is called with one. */
export interface DashboardOptions<Req extends IncomingMessage | Request = IncomingMessage> {
  /** A client of ioredis, iovalkey, node-redis or GLIDE, like `new Redis(url)`; it is never closed here. */
  client: RedisClient
  /** The beginning of all keys, as for stores and `reporter`; default 'spillway'. */
  prefix?: string
  /**
   * Required. Returns 'read' for users who may look and 'write' for users who may also change things, with a name for
   * the history. false, a throw or a rejection: 403, and nothing is done. Like `(request: Request) =>
   * (isAdmin(request) ? 'write' : false)`.
   */
  authorize: (req: Req) => DashboardAccess | Promise<DashboardAccess>
  /**
   * Changes limits. Default: none. Without it limits cannot be changed; block, unblock and reset need only `client`.
   */
  live?: LivePolicies
  /** How keys are shown: 'masked' (default), with their middle left out; 'plain'; or 'hashed'. */
  keys?: KeyStyle
  /**
   * Default: none. The mount path, like '/limits': only needed if the framework does not remove it, as with `node:http`
   * and Koa, and the handler should ignore other paths.
   */
  basePath?: string
  /**
   * Host names under which it answers, without ports, like ['ops.example.com']. Default: none. It always answers to
   * addresses and localhost. Other names are refused with 421, so that no site on the internet can point its own name
   * here.
   */
  hosts?: readonly string[]
}

const OPTIONS: OptionNames<DashboardOptions<never>> = {
  client: true,
  prefix: true,
  authorize: true,
  live: true,
  keys: true,
  basePath: true,
  hosts: true,
}
const STYLES: readonly KeyStyle[] = ['masked', 'plain', 'hashed']

/** The options, checked and with their defaults. Throws `PolicyError`. */
export function parseDashboardOptions<Req extends AnyRequest>(options: DashboardOptions<Req>) {
  checkOptions('dashboard', options, OPTIONS, "{ client, authorize: req => 'read' }")
  const { client, prefix = 'spillway', authorize, live, keys = 'masked', basePath, hosts = [] } = options
  if (typeof authorize !== 'function') {
    throw new PolicyError(
      `dashboard: authorize ${shown(authorize)}: expected a function that says who may see it, like req => ` +
        "(isAdmin(req) ? 'write' : false)",
    )
  }
  keyRoot('dashboard', 'dashboard', 'dashboard', prefix)
  portOf(client, 'dashboard')
  if (live !== undefined && !changesLimits(live)) {
    throw new PolicyError(
      `dashboard: live ${shown(live)}: expected new LivePolicies(client, { defaults: { api: '100/1m' } })`,
    )
  }
  if (!STYLES.includes(keys))
    throw new PolicyError(`dashboard: keys ${shown(keys)}: expected one of ${STYLES.join(', ')}`)
  if (basePath !== undefined && !/^(\/[^/?#]+)*\/?$/.test(String(basePath))) {
    throw new PolicyError(`dashboard: basePath ${shown(basePath)}: expected a path, like '/limits'`)
  }
  if (!(Array.isArray(hosts) && hosts.every(host => typeof host === 'string'))) {
    throw new PolicyError(
      `dashboard: hosts ${shown(hosts)}: expected host names without ports, like ['ops.example.com']`,
    )
  }
  return {
    client,
    prefix,
    authorize,
    live,
    keys,
    basePath: basePath?.replace(/\/$/, ''),
    hosts: hosts.map(host => host.toLowerCase()),
  }
}

/** Checked by shape, because a service may have loaded the package twice. */
function changesLimits(live: Partial<LivePolicies> | null): boolean {
  return [live?.set, live?.clear, live?.for].every(method => typeof method === 'function')
}
