import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from '@jest/globals'
import { compileExamples } from '../../support/compiled-examples.js'

const folder = compileExamples(['sqlite.ts'])
afterAll(() => rmSync(folder, { recursive: true }))

test('examples/sqlite.ts admits one quota in two processes', async () => {
  const env = { ...process.env, NODE_OPTIONS: '', LIMITS_DB: join(folder, 'limits.db') }
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'sqlite.mjs')], { env })
  expect(stdout).toContain('20 together.')
})
