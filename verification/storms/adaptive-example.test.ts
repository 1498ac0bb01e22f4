import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from '@jest/globals'
import { compileExamples } from '../../test/support/compiled-examples.js'

const folder = compileExamples(['adaptive.ts'])
afterAll(() => rmSync(folder, { recursive: true }))

test('adaptive.ts answers the important requests while it refuses the others', async () => {
  // Rejects if it ends with another code than 0.
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'adaptive.mjs')])
  expect(stdout).toMatch(/^after \d s: level \d+\.\d \(event-loop\)$/m)
  const counts = (path: string) =>
    new RegExp(`^${path}: (\\d+) done, (\\d+) refused$`, 'm').exec(stdout)?.slice(1).map(Number)
  expect(counts('/pay')).toEqual([expect.any(Number), 0])
  expect(counts('/pay')?.[0]).toBeGreaterThan(5)
  expect(counts('/search')?.[1]).toBeGreaterThan(0)
}, 60_000)
