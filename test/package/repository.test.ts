import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { root } from '../support/files.js'

const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).trim().split('\n')
const locks = files.filter(file => file.endsWith('package-lock.json'))
const texts = files.filter(file => !/\.(png|svg|pem|key|ico)$/.test(file))

test('lock files hold no addresses of downloads', () => {
  expect(locks.length).toBeGreaterThan(0)
  expect(locks.filter(file => readFileSync(join(root, file), 'utf8').includes('"resolved"'))).toEqual([])
})

test("no file names a folder of somebody's home", () => {
  const home = /(?<![\w./-])(?:\/(?:home|Users|root)\/[a-z]|[A-Z]:\\\\?Users\\)/
  expect(texts.filter(file => home.test(readFileSync(join(root, file), 'utf8')))).toEqual([])
})
