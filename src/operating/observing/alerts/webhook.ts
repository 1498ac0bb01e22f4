import { type Duration, parseOption } from '../../../limiter/core/duration.js'
import { PolicyError, shown } from '../../../limiter/core/errors.js'
import { checkOptions, type OptionNames } from '../../../limiter/core/options.js'
import { emitWarning } from '../../../limiter/core/warnings.js'
import type { Alert } from './alert-rule.js'
import { CONDITIONS, describeAlert } from './conditions.js'

/** Options of `webhook`. */
export interface WebhookOptions {
  /** Header fields to send beside `Content-Type`, such as `{ Authorization: 'Bearer …' }`. Default: none. */
  headers?: Record<string, string>
  /** The timeout of each attempt. Default '5s'. */
  timeout?: Duration
}

const NAMES: OptionNames<WebhookOptions> = { headers: true, timeout: true }
const TRIES = 3
/** The pause after a failed attempt; then twice as long. */
const FIRST_PAUSE_MS = 1000
/** Most waiting alerts; above this, the oldest are dropped. */
const MOST_WAITING = 100

/**
 * A `notify` for `alerts` that posts JSON, `{ text, alert }`: Slack, Mattermost, Discord (at `/slack`) and others show
 * the text. Alerts are sent one by one, in order; each is tried three times, 1 s and 2 s apart, while the receiver does
 * not answer, or answers 429 or 5xx. Never throws and never waits; an undelivered alert becomes a process warning
 * (SPILLWAY_ALERT). At most 100 alerts wait. Throws `PolicyError` for an invalid address or option.
 */
export function webhook(url: string, options: WebhookOptions = {}): (alert: Alert) => void {
  checkOptions('webhook', options, NAMES, "{ timeout: '5s' }")
  const { headers = {}, timeout = '5s' } = options
  const timeoutMs = parseOption(timeout, 'webhook: timeout')
  const sender = new Sender(addressOf(url), headersOf(headers), timeoutMs)
  return alert => sender.send(alert)
}

class Sender {
  readonly #waiting: Alert[] = []
  #sending = false

  constructor(
    readonly address: URL,
    readonly headers: Headers,
    readonly timeoutMs: number,
  ) {}

  send(alert: Alert): void {
    this.#waiting.push(alert)
    if (this.#waiting.length > MOST_WAITING) {
      this.#waiting.shift()
      this.#warn(`more than ${MOST_WAITING} alerts wait: the oldest is dropped`)
    }
    if (!this.#sending) void this.#sendAll()
  }

  async #sendAll(): Promise<void> {
    this.#sending = true
    for (let alert = this.#waiting.shift(); alert !== undefined; alert = this.#waiting.shift()) {
      const failure = await this.#deliver(JSON.stringify({ text: textOf(alert), alert }))
      if (failure !== undefined) this.#warn(`"${alert.rule.name}" was not delivered: ${failure}`)
    }
    this.#sending = false
  }

  /** Returns the failure, if any. */
  async #deliver(body: string): Promise<string | undefined> {
    let failure: string | undefined
    for (let tries = 0; tries < TRIES; tries++) {
      if (tries > 0) await pause(FIRST_PAUSE_MS * 2 ** (tries - 1))
      try {
        const signal = AbortSignal.timeout(this.timeoutMs)
        const response = await fetch(this.address, { method: 'POST', headers: this.headers, body, signal })
        await response.body?.cancel()
        if (response.ok) return undefined
        failure = `it answered ${response.status}`
        if (response.status < 500 && response.status !== 429) return failure
      } catch (error) {
        const { message, cause } = error as Error
        const reason = (cause as Error | undefined)?.message
        failure = reason === undefined ? message : `${message}: ${reason}`
      }
    }
    return failure
  }

  /** Names only the host: the rest of the address is often a secret. */
  #warn(text: string): void {
    emitWarning('SPILLWAY_ALERT', `webhook to ${this.address.host}: ${text}`)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms).unref())
}

const WRITTEN = {
  share: (value: number) => `${Number((value * 100).toPrecision(3))} %`,
  ms: (value: number) => `${Math.round(value)} ms`,
  count: String,
}

/** One line for people. */
function textOf({ rule, state, value, subject }: Alert): string {
  const { name, when, above } = rule
  const mark = state === 'firing' ? 'FIRING' : 'RESOLVED'
  const most = WRITTEN[CONDITIONS[when].unit](above)
  return `${mark} ${name}: ${describeAlert(when, subject, value, WRITTEN)} (alert above ${most})`
}

function addressOf(url: unknown): URL {
  const address = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (address?.protocol === 'https:' || address?.protocol === 'http:') return address
  throw new PolicyError(
    'webhook: url: expected a text like "https://hooks.example.com/services/T0/B0" (its value may be a secret ' +
      'and is not shown)',
  )
}

function headersOf(given: Record<string, string>): Headers {
  if (typeof given !== 'object' || given === null) {
    throw new PolicyError(
      `webhook: headers ${shown(given)}: expected texts by name, like { Authorization: "Bearer …" }`,
    )
  }
  const headers = new Headers({ 'Content-Type': 'application/json' })
  for (const [name, value] of Object.entries(given)) {
    try {
      headers.set(name, value)
    } catch (cause) {
      throw new PolicyError(
        `webhook: headers: ${shown(name)} is no name or has no value of a header field: expected texts, like { ` +
          'Authorization: "Bearer …" }',
        { cause },
      )
    }
  }
  return headers
}
