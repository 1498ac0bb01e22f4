import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { Script } from '../../src/redis/script.js'
import * as embedded from '../../src/redis/scripts.js'
import { testRedis } from '../support/test-redis.js'
import { filesOf, root } from './files.js'

const files = filesOf('lua', '.lua')
const shared = files.filter(file => /^lua\/(lib|algorithms)\//.test(file))
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
const offenders = (pattern: RegExp, among = files) => among.filter(file => pattern.test(textOf(file)))

const { consumeOne, ...others } = embedded
const scripts: Script[] = [...Object.values(others), ...Object.values(consumeOne)]

/** The scripts as they are written, with the comment before each: whole files, or the global functions of a file. */
const written = files
  .filter(file => !shared.includes(file))
  .flatMap(file => {
    const found = [...textOf(file).matchAll(/(--\[\[(?:(?!\]\])[\s\S])*\]\]\n)?^function (\w+)\(\)$/gm)]
    if (found.length > 0) return found.map(([, header = '', name]) => ({ name, header }))
    return [{ name: basename(file, '.lua'), header: /^--\[\[([\s\S]*?)\]\]/.exec(textOf(file))?.[1] ?? '' }]
  })

describe('Lua', () => {
  test('every script begins with a header that describes KEYS, ARGV and the result', () => {
    const lacking = written.flatMap(({ name, header }) =>
      ['KEYS', 'ARGV', 'Returns'].filter(word => !header.includes(word)).map(word => `${name}: ${word}`),
    )
    expect(lacking).toEqual([])
  })

  test('every file of a library and of an algorithm begins with a comment', () => {
    expect(shared.filter(file => !textOf(file).startsWith('--'))).toEqual([])
  })

  test('a decision under a fixed window is read in three files', () => {
    const pieces = (file: string) => [...textOf(file).matchAll(/-- @inline (\w+)\./g)].map(([, owner]) => owner)
    const read = new Set([...pieces('lua/limiter/consume_row.lua'), ...pieces('lua/limiter/lib/decision.lua')])
    expect([...read].sort()).toEqual(['ALGORITHM', 'decision'])
  })

  test('directives are few: at most 60 lines', () => {
    expect(files.flatMap(file => textOf(file).match(/^\s*-- @/gm) ?? []).length).toBeLessThanOrEqual(60)
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

  test('are those that are written, and one for each algorithm; Redis accepts them under the hash that we send', async () => {
    const built = Object.keys(consumeOne)
    expect(built.sort()).toEqual(
      filesOf('lua/limiter/algorithms', '.lua')
        .map(file => basename(file, '.lua').replaceAll('_', '-'))
        .sort(),
    )
    const names = written.map(({ name }) => name).filter(name => name !== 'consume_row' && name !== 'consume_log')
    expect(
      Object.values(others)
        .map(({ name }) => name)
        .sort(),
    ).toEqual(names.sort())
    const client = redis.client()
    for (const { sha1, source } of scripts) expect(await client.script('LOAD', source)).toBe(sha1)
  })

  test('are pinned: their text changes only together with lua/pinned.txt, which `node --import tsx scripts/pin-lua.ts` writes', () => {
    const hashes = scripts.map(({ name, sha1 }) => `${name} ${sha1}\n`).sort()
    expect(hashes.join('')).toBe(textOf('lua/pinned.txt'))
  })

  test('are sent without comments', () => {
    for (const { source } of scripts) expect(source).not.toMatch(/^\s*--|^\s/m)
  })
})
