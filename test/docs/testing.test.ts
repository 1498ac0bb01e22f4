import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { MUTANTS } from '../../verification/mutants/mutants.js'
import { filesOf, root } from '../support/files.js'
import { textOf } from './pages.js'

const page = textOf('docs/testing.md')

test('every test, benchmark and command that the page names is there', () => {
  const named = [...page.matchAll(/`((?:test|bench)\/[\w./-]+)`/g)].map(([, path]) => path)
  expect(named.length).toBeGreaterThan(20)
  const missing = named.filter(path => !['', '.ts', '.test.ts'].some(end => existsSync(join(root, path + end))))
  expect(missing).toEqual([])
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const commands = [...page.matchAll(/npm (?:run )?([\w:]+)/g)].map(([, name]) => name)
  expect(commands.filter(name => !(name in scripts))).toEqual([])
})

test('the numbers of configurations and mutants are those of the tables', () => {
  const lines = filesOf('proofs', 'checks.txt').flatMap(file => readFileSync(join(root, file), 'utf8').split('\n'))
  const count = (verb: string) => lines.filter(line => line.startsWith(verb)).length
  expect(page).toContain(`${count('holds ')} configurations`)
  expect(page).toContain(`${count('breaks ')} mutants`)
  expect(page).toContain(`${MUTANTS.length} times one rule of the scripts`)
  expect(page).toContain(`| ${MUTANTS.length}, of which each is found`)
})

test('the rule that a mutant leaves out or bends is in the code once', () => {
  const times = ({ file, text }: (typeof MUTANTS)[number]) =>
    readFileSync(join(root, file), 'utf8').split(text).length - 1
  expect(MUTANTS.filter(mutant => times(mutant) !== 1)).toEqual([])
})
