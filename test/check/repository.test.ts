import { spawnSync } from 'node:child_process'
import { accessSync, constants, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { root } from '../support/files.js'

const run = (program: string, ...args: string[]) => spawnSync(program, args, { cwd: root, encoding: 'utf8' })
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')

/** What is or would be committed. */
const files = run('git', 'ls-files', '--cached', '--others', '--exclude-standard')
  .stdout.split('\n')
  .filter(file => file !== '' && statSync(join(root, file), { throwIfNoEntry: false })?.isFile())

describe('the repository', () => {
  test('git lists its files', () => {
    expect(files).toContain('package.json')
  })

  test('the lock file holds no address of a registry', () => {
    expect(textOf('package-lock.json')).not.toContain('"resolved"')
  })

  test('the lock file fits package.json', () => {
    const [lock, own] = [JSON.parse(textOf('package-lock.json')).packages[''], JSON.parse(textOf('package.json'))]
    for (const part of ['name', 'version', 'dependencies', 'devDependencies', 'peerDependencies']) {
      expect([part, lock[part]]).toEqual([part, own[part]])
    }
  })

  test('no file names a place on the machine on which it was written', () => {
    const place = /\/(?:root|Users|home)\/[\w.-]+\/|\/work\/(?:main|shared|\.library)\b/
    expect(files.filter(file => place.test(textOf(file)))).toEqual([])
  })

  test('no file names the registry that npm asks here, nor a well-known one', () => {
    const own = new URL(run('npm', 'config', 'get', 'registry').stdout.trim()).host
    const hosts = [own, ...['npmjs', 'yarnpkg'].map(name => `registry.${name}`)].map(host => `//${host}`)
    expect(files.filter(file => hosts.some(host => textOf(file).includes(host)))).toEqual([])
  })

  test('files that are run by name are executable', () => {
    for (const file of ['.ci/run']) accessSync(join(root, file), constants.X_OK)
  })

  test('the README shows the two commands, each on a line of its own', () => {
    const lines = textOf('README.md').split('\n')
    expect(lines).toContain('npm ci && npm run demo')
    expect(lines).toContain('npm ci && npm test')
  })

  test('every example is run by a test', () => {
    const examples = readdirSync(join(root, 'examples')).filter(name => name.endsWith('.ts'))
    const tests = textOf('test/docs/examples.test.ts')
    expect(examples.length).toBeGreaterThan(0)
    expect(examples.filter(name => !tests.includes(name))).toEqual([])
  })

  test('workflows run commands of package.json and nothing else', () => {
    const { scripts } = JSON.parse(textOf('package.json'))
    const workflows = files.filter(file => file.startsWith('.github/workflows/'))
    const commands = workflows.flatMap(file =>
      [...textOf(file).matchAll(/^ +- run: (.+)$/gm)].map(([, command]) => command),
    )
    expect(commands.length).toBeGreaterThan(10)
    const matrix = [...textOf('.github/workflows/nightly.yml').matchAll(/test:\w+/g)].map(([name]) => name)
    const named = commands.filter(command => !/^npm (?:ci|test|run \$\{\{ matrix\.command }})$/.test(command))
    const names = [...named.map(command => command.replace(/^npm run /, '')), ...matrix]
    expect(names.filter(name => !(name in scripts))).toEqual([])
  })
})
