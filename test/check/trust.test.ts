import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { root } from '../support/files.js'

const folder = join(root, '.github/workflows')
const workflows = readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'utf8')] as const)

test('what agents read is what the documents say', () => {
  execFileSync(process.execPath, [join(root, 'scripts/agents.mjs'), '--check'], { stdio: 'pipe' })
})

test.each(workflows)('%s names actions by the hash of a commit', (_, text) => {
  const used = [...text.matchAll(/uses: (\S+)/g)].map(([, action]) => action)
  expect(used.length).toBeGreaterThan(0)
  expect(used.filter(action => !/@[0-9a-f]{40}$/.test(action))).toEqual([])
})

test.each(workflows)('%s may only read, but for jobs that say more', (_, text) => {
  expect(text).toMatch(/^permissions:\n {2}contents: read\n(?! )/m)
  expect(text).not.toMatch(/pull_request_target|write-all|\$\{\{ *github\.(?:event\.|head_ref)/)
})
