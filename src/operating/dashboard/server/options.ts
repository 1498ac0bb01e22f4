import { createHmac } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { PolicyError, shown } from '../../../limiter/core/errors.js'
import { checkOptions, type OptionNames } from '../../../limiter/core/options.js'
import type { RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { keyRoot } from '../../../redis/keys.js'
import type { LivePolicies } from '../../live/live-policies.js'
import type { KeyView } from '../view.js'

/** How keys are shown. */
export type KeyStyle = 'masked' | 'plain' | 'hashed'

const GAP = '••'
/** Of a masked key at most a third is shown, and at most so many characters at each end. */
const MOST_SHOWN = 4
const MOST_PLAIN = 200
/** Most keys that were shown and can be changed. */
const MOST_REFS = 5000

/**
 * The displayed form of keys. What stands for a key is made with a secret that viewers never see: keys can be guessed
 * (addresses, numbers of users), and a hash alone would confirm each guess.
 */
export class KeyViews {
  /**
   * Keys that were shown last, and what stands for them: an HMAC costs more than all else that a key in a list costs.
   */
  readonly #shown = new Map<string, KeyView>()
  readonly #keys = new Map<string, string>()
  #of = ''

  /** `secret` is asked at each use: all dashboards share it in Redis, where it is read first. */
  constructor(
    readonly style: KeyStyle,
    readonly secret: () => string,
  ) {}

  /** The displayed form of a key; viewers may act on it. */
  view(key: string): KeyView {
    const secret = this.secret()
    if (secret !== this.#of) {
      this.#shown.clear()
      this.#keys.clear()
      this.#of = secret
    }
    const known = this.#shown.get(key) ?? this.#made(key)
    this.#shown.delete(key)
    this.#shown.set(key, known)
    this.#keys.set(known.ref, key)
    const [oldest] = this.#shown
    if (this.#shown.size > MOST_REFS && oldest !== undefined) {
      this.#shown.delete(oldest[0])
      this.#keys.delete(oldest[1].ref)
    }
    return known
  }

  /** The key behind a ref that was shown here. */
  keyOf(ref: string): string | undefined {
    return this.#keys.get(ref)
  }

  #made(key: string): KeyView {
    const ref = this.ref(key)
    if (this.style === 'plain') return { text: key.length > MOST_PLAIN ? `${key.slice(0, MOST_PLAIN)}…` : key, ref }
    return { text: this.style === 'hashed' ? `#${ref.slice(0, 10)}` : masked(key), ref }
  }

  /** Replaces a key in a request. */
  ref(key: string): string {
    return createHmac('sha256', this.secret()).update(Buffer.from(key, 'utf16le')).digest('base64url').slice(0, 22)
  }
}

/** A key with its middle left out: '203••7'. */
function masked(key: string): string {
  const letters = [...key]
  const shown = Math.min(2 * MOST_SHOWN, Math.floor(letters.length / 3))
  const head = Math.min(MOST_SHOWN, Math.ceil(shown * 0.65))
  const tail = shown - head
  return letters.slice(0, head).join('') + GAP + letters.slice(letters.length - tail).join('')
}

/** What a user may do: look, look and change, or nothing; with a name for the history. */
export type DashboardAccess = 'read' | 'write' | false | NamedAccess

/** Access with a name. */
export interface NamedAccess {
  /** What the user may do. */
  readonly access: 'read' | 'write'
  /** The name in the history of changes. */
  readonly user: string
}

/** Options of `dashboard`. */
export interface DashboardOptions {
  /** A client of ioredis, iovalkey, node-redis or GLIDE, like `new Redis(url)`; it is never closed here. */
  client: RedisClient
  /** The beginning of all keys, as for stores and `reporter`; default 'spillway'. */
  prefix?: string
  /**
   * Required. Returns 'read' for users who may look and 'write' for users who may also change things, with a name for
   * the history. false, a throw or a rejection: 403, and nothing is done.
   */
  authorize: (req: IncomingMessage) => DashboardAccess | Promise<DashboardAccess>
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

const OPTIONS: OptionNames<DashboardOptions> = {
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
export function parseDashboardOptions(options: DashboardOptions) {
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
