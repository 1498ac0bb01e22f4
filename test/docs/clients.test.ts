import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { root } from '../support/files.js'
import { OLDER_CLIENTS } from '../support/older-clients.js'
import { CLIENTS } from '../support/tested-clients.js'
import { textOf } from './pages.js'

const { peerDependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** The table of docs/clients.md: client → its cells. */
const ROWS = [...textOf('docs/clients.md').matchAll(/^\| (ioredis|iovalkey|node-redis|@\S+) \| (.+) \|$/gm)].map(
  ([, name, cells]) => {
    const [versions, single, cluster, sentinel, listens, blocks] = cells.split(' | ')
    return { name, versions, single, cluster, sentinel, listens, blocks }
  },
)

/** What the contract of shared objects runs: GLIDE 2.2 has a file of its own. */
const kindsOf = (name: string) => {
  const own = name === '@valkey/valkey-glide' ? 'GLIDE' : name
  return Object.entries({ ...CLIENTS, ...OLDER_CLIENTS }).filter(([tested]) => tested.startsWith(`${own} `))
}

test('the table has every client that is a peer', () => {
  const names = ROWS.map(({ name }) => (name === 'node-redis' ? 'redis' : name))
  expect(names.sort()).toEqual(
    Object.keys(peerDependencies)
      .filter(name => /redis|valkey/.test(name))
      .sort(),
  )
})

test.each(ROWS)('$name: the first and the last version are among those that the tests run', row => {
  const peer = row.name === 'node-redis' ? 'redis' : row.name
  const installed = Object.entries(devDependencies as Record<string, string>)
    .filter(([name, range]) => name === peer || range.startsWith(`npm:${peer}@`))
    .map(([, range]) => range.replace(/^npm:.+@/, ''))
  const versions = row.versions.split(/, | to /)
  for (const version of [versions[0], versions[versions.length - 1]]) {
    expect(installed.some(range => `${range.replace('^', '')}.`.startsWith(`${version}.`))).toBe(true)
  }
  expect(kindsOf(row.name).length).toBeGreaterThan(0)
})

test.each(ROWS)('$name: the kinds of server, and what it can do there, are those that the contract runs', row => {
  const kinds = kindsOf(row.name).map(([, kind]) => kind)
  expect(row.single).toBe('yes')
  expect(kinds.every(({ cluster }) => (cluster !== undefined) === (row.cluster === 'yes'))).toBe(true)
  const withSentinel = kindsOf(row.name).filter(([, { sentinel }]) => sentinel)
  expect(withSentinel.length > 0).toBe(row.sentinel !== '–')
  const majors = new Set(withSentinel.map(([name]) => name.split(' ')[1].split('.')[0]))
  if (row.sentinel !== 'yes' && row.sentinel !== '–') expect([...majors].sort()).toEqual(row.sentinel.split(', '))
  expect(row.listens !== '–').toBe(kinds.every(({ listens }) => listens))
  expect(row.blocks !== '–').toBe(kinds.every(({ blocks }) => blocks))
})
