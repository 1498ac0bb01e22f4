import { describe, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { rateLimit } from '../../src/http/adapters/express.js'
import { MemoryStore, RateLimiter, RedisStore } from '../../src/index.js'
import { parseRule } from '../../src/operating/observing/alerts/alert-rule.js'
import { PAGES, textOf } from './pages.js'

const HTTP =
  /^(?:allow|block|deny|handler|headers|message|settle|skip|slowDown|statusCode|windowMs|limit|algorithm|proxies)\b/
const BOTH = /^(?:policy|store|name|cost|deadline|onStoreFailure|localShare|denyCache|shadow)\b/
/** What a row may name without defining it. */
const GIVEN = { RedisStore, MemoryStore, prefix: 'spillway', maxKeys: 1000, processes: 4 }

/**
 * The options with values in the last columns of a page's tables, as they stand between backticks; ellipses stand for
 * code of the reader.
 */
function optionsOf(page: string): string[] {
  const rows = textOf(page)
    .split('\n')
    .filter(line => line.startsWith('| '))
  const spans = rows.flatMap(row => [...(row.split(/(?<!\\)\|/).at(-2) ?? '').matchAll(/`([^`…]+)`/g)])
  return spans
    .map(([, text]) => text.replace(/^\{ (.*) \}$/, '$1'))
    .filter(text => text.includes(': ') && (HTTP.test(text) || BOTH.test(text)))
}

/** Builds what the page speaks of with these options. */
function build(options: string, throughHttp: boolean): void {
  const client = new Redis({ lazyConnect: true })
  const given = { ...GIVEN, client, redis: client }
  const value = new Function(...Object.keys(given), `return { ${options} }`)(...Object.values(given))
  if (throughHttp) rateLimit(value)
  else new RateLimiter({ policy: '10/1m', ...value })
}

const pages = PAGES.filter(page => page.startsWith('docs/from-') && optionsOf(page).length > 0)
describe.each(pages)('the tables of %s', page => {
  const throughHttp = /from 'spillway\/(?:express|fastify|hono|koa|nest)'/.test(textOf(page))
  test.each(optionsOf(page))('{ %s } builds', options => {
    expect(() => build(options, throughHttp || HTTP.test(options))).not.toThrow()
  })
})

test('a row that names an option which the limiter refuses is found', () => {
  expect(() => build("policy: '10/10s', algorithm: 'fixed-window'", false)).toThrow('algorithm')
})

const RULES = [...textOf('docs/observing.md').matchAll(/^\| [^`|]+ \| `(\{ name:.*\})` \|$/gm)].map(([, rule]) => rule)
test.each(RULES)('the rule %s of an alert is accepted', rule => {
  expect(parseRule(new Function(`return ${rule}`)()).rule.name).toBeTruthy()
})
