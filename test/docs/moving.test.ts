import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { format } from 'node:util'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import * as express from '../../src/adapters/express.js'
import * as koa from '../../src/adapters/koa.js'
import * as dropIn from '../../src/express-rate-limit/index.js'
import * as spillway from '../../src/index.js'
import { runSample } from '../support/sample.js'

const folder = join(__dirname, '../../docs')
const OURS: Record<string, unknown> = {
  spillway,
  'spillway/express': express,
  'spillway/koa': koa,
  'spillway/express-rate-limit': { __esModule: true, ...dropIn },
}

// Only the date stands still: a busy machine must not turn 60 seconds into 59.
const RUNNING = [
  'setTimeout',
  'setInterval',
  'setImmediate',
  'nextTick',
  'queueMicrotask',
  'performance',
  'hrtime',
] as const
const ENDING = ['clearTimeout', 'clearInterval', 'clearImmediate'] as const
beforeEach(() => void jest.useFakeTimers({ doNotFake: [...RUNNING, ...ENDING] }))
afterEach(() => void jest.useRealTimers())

// Redisson's programs are Java.
const MOVING = readdirSync(folder).filter(name => name.startsWith('from-') && name !== 'from-redisson.md')

describe.each(MOVING)('docs/%s', name => {
  const page = readFileSync(join(folder, name), 'utf8')
  const peer = name.replace(/^from-|\.md$/g, '')
  const samples = [...page.matchAll(/^```ts\n(.*?)^```\n\n?```text\n(.*?)^```$/gms)]

  test('has a program before and one after, and tells what each prints', () => {
    expect(samples).toHaveLength(page.match(/^```ts$/gm)?.length ?? 0)
    const imports = samples.map(([, code]) => [...code.matchAll(/ from '(.+)'$/gm)].map(([, module]) => module))
    expect(imports.some(modules => modules.includes(peer))).toBe(true)
    expect(imports.some(modules => modules.some(module => module in OURS))).toBe(true)
  })

  test.each(samples.map(([, code, output], i) => [i + 1, code, output] as const))(
    'program %i prints what it says',
    async (_, code, output) => {
      const printed: string[] = []
      const log = (...values: unknown[]) => printed.push(`${format(...values)}\n`)
      await runSample(code, module => OURS[module] ?? require(module), { console: { ...console, log } })
      expect(printed.join('')).toBe(output)
    },
  )
})
