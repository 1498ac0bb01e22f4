import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { MUTANTS } from '../../verification/mutants/mutants.js'
import { TEST_MUTANTS } from '../../verification/mutants/test-mutants.js'

test.each([...MUTANTS, ...TEST_MUTANTS])('the mutant "$name" bends a text that stands in $file once', mutant => {
  const { file, text, instead } = mutant
  expect(readFileSync(file, 'utf8').split(text)).toHaveLength(2)
  expect(instead).not.toBe(text)
})
