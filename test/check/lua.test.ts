import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { LuaScript, type Script } from '../../src/redis/script.js'
import * as embedded from '../../src/redis/scripts.js'
import { testRedis } from '../support/test-redis.js'
import { filesOf, root } from './files.js'

const files = filesOf('lua', '.lua')
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
const offenders = (pattern: RegExp, among = files) => among.filter(file => pattern.test(textOf(file)))
const isModule = (file: string) => textOf(file).includes(`\nlocal ${basename(file, '.lua')} = {}\n`)
const written = files.filter(file => !isModule(file))

const scripts: Script[] = Object.values(embedded).flatMap((value): Script[] =>
  value instanceof LuaScript ? [value] : Object.values(value),
)

describe('Lua', () => {
  test('every script begins with a header that describes KEYS, ARGV and the result', () => {
    const lacking = written.flatMap(file => {
      const header = /^--\[\[([\s\S]*?)\]\]/.exec(textOf(file))?.[1] ?? ''
      return ['KEYS', 'ARGV', 'Returns'].filter(word => !header.includes(word)).map(word => `${file}: ${word}`)
    })
    expect(lacking).toEqual([])
  })

  test('every module begins with a comment', () => {
    expect(files.filter(file => isModule(file) && !textOf(file).startsWith('--'))).toEqual([])
  })

  test('no script uses a command whose time grows with the size of the database', () => {
    expect(offenders(/call\(\s*['"](KEYS|SCAN|RANDOMKEY|FLUSHDB|FLUSHALL|SORT)['"]/i)).toEqual([])
  })

  test('no script builds a key by concatenation', () => {
    expect(offenders(/call\(\s*['"]\w+['"]\s*,[^,)\n]*\.\./)).toEqual([])
  })

  test('no script runs text as code', () => {
    expect(offenders(/\b(loadstring|load|dofile|setfenv)\s*\(/)).toEqual([])
  })
})

describe('the embedded scripts', () => {
  const redis = testRedis()

  test('are those that are written; Redis accepts them under the hash that we send', async () => {
    const names = scripts.map(({ name }) => name.replace(/\..*/, ''))
    expect([...new Set(names)].sort()).toEqual(written.map(file => basename(file, '.lua')).sort())
    const client = redis.client()
    for (const { sha1, source } of scripts) expect(await client.script('LOAD', source)).toBe(sha1)
  })

  test('are sent without comments', () => {
    for (const { source } of scripts) expect(source).not.toMatch(/^\s*--|^\s/m)
  })

  test('are printed with their comments', () => {
    const args = ['--import', 'tsx', 'scripts/embed-lua.ts', 'consume_row', 'token_bucket']
    const { stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
    expect(stdout).toMatch(
      /^--\[\[\n {2}Decides a batch[\s\S]*\nlocal function token_bucket_measure\([\s\S]*return out\n/,
    )
  })
})
