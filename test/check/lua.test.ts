import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Script } from '../../src/redis/script.js'
import * as embedded from '../../src/redis/scripts.js'
import { RedisServer } from '../support/redis-server.js'
import { filesOf, root } from './files.js'

const files = filesOf('lua', '.lua')
const fragments = files.filter(file => file.startsWith('lua/lib/'))
const steps = files.filter(file => file.startsWith('lua/steps/'))
const algorithms = files.filter(file => file.startsWith('lua/algorithms/'))
const tops = files.filter(file => ![...fragments, ...steps, ...algorithms].includes(file))
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
const offenders = (pattern: RegExp, among = files) => among.filter(file => pattern.test(textOf(file)))

const { consumeOne, ...others } = embedded
const scripts: Script[] = [...Object.values(others), ...Object.values(consumeOne)]

const nameOf = (file: string) => basename(file, '.lua')
/** What a file declares outside its functions. */
const topNames = (file: string) =>
  [...textOf(file).matchAll(/^(?:local function|function|local) ([\w.]+)/gm)].map(match => match[1])

describe('Lua', () => {
  test('every script begins with a header that describes KEYS, ARGV and the result', () => {
    expect(tops.length).toBeGreaterThan(0)
    const headers = tops.map(file => [file, /^--\[\[([\s\S]*?)\]\]/.exec(textOf(file))?.[1] ?? ''])
    const lacking = headers.flatMap(([file, header]) =>
      ['KEYS', 'ARGV', 'Returns'].filter(word => !header.includes(word)).map(word => `${file}: ${word}`),
    )
    expect(lacking).toEqual([])
  })

  test('every fragment begins with a comment and defines the function that its file is named after', () => {
    expect([...fragments, ...steps, ...algorithms].filter(file => !textOf(file).startsWith('--'))).toEqual([])
    expect(fragments.filter(file => !topNames(file).includes(nameOf(file)))).toEqual([])
  })

  test('no two fragments define the same name, because they share the scope of the script', () => {
    const names = fragments.flatMap(topNames)
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([])
  })

  test('every fragment is included', () => {
    const included = new Set(
      files.flatMap(file =>
        [...textOf(file).matchAll(/-- @include (\S+)(?: with (\S+))?/g)].flatMap(match => match.slice(1)),
      ),
    )
    expect(fragments.filter(file => !included.has(nameOf(file)))).toEqual([])
    expect(steps.filter(file => !included.has(`steps/${nameOf(file)}`))).toEqual([])
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
  let redis: RedisServer
  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.stop())

  test('each file has one, which Redis accepts under the hash that we send', async () => {
    const names = [...tops.map(nameOf), ...algorithms.map(file => `${nameOf(file)}.consume`)]
    expect(scripts.map(({ name }) => name).sort()).toEqual(names.sort())
    const client = redis.client()
    for (const { sha1, source } of scripts) expect(await client.script('LOAD', source)).toBe(sha1)
  })

  test('are pinned: their text changes only together with lua/pinned.txt, which `npm run pin` writes', () => {
    const hashes = scripts.map(({ name, sha1 }) => `${name} ${sha1}\n`).sort()
    expect(hashes.join('')).toBe(textOf('lua/pinned.txt'))
  })

  test('are sent without comments', () => {
    for (const { source } of scripts) expect(source).not.toMatch(/^\s*--|^\s/m)
  })
})
