import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { randomFrom } from '../../test/support/random.js'
import { flatness } from './flat.js'
import { objectBytes } from './objects.js'

const random = randomFrom('flat')
const noisy = (rise: number, scatter: number) =>
  Array.from({ length: 360 }, (_, i) => 100 + (rise * i) / 360 + scatter * (random.integer(0, 2000) / 1000 - 1))

describe('a series', () => {
  test('that scatters around one value, falls, or rises by less than 2 % is flat', () => {
    for (let i = 0; i < 50; i++) {
      expect(flatness(noisy(0, 10))).toMatchObject({ flat: true })
      expect(flatness(noisy(-20, 3))).toMatchObject({ flat: true })
      expect(flatness(noisy(1.8, 0.2))).toMatchObject({ flat: true })
    }
    expect(flatness(new Array(12).fill(7))).toMatchObject({ first: 7, last: 7, rise: 0, noise: 0, flat: true })
  })

  test('that leaks is not, however much it scatters', () => {
    for (let i = 0; i < 50; i++) expect(flatness(noisy(20, 30))).toMatchObject({ flat: false })
    const stairs = Array.from({ length: 360 }, (_, i) => 100 + Math.floor(i / 60) * 4)
    expect(flatness(stairs)).toMatchObject({ flat: false })
  })

  test('that is too short says so', () => {
    expect(() => flatness([1, 2])).toThrow('given 2 samples, expected at least 12')
  })
})

test('the objects of a program are measured, not the code that it compiles', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-objects-'))
  const paths = ['start', 'objects', 'code'].map(name => join(folder, name))
  const program = `
    const { writeHeapSnapshot } = require('node:v8')
    const [start, objects, code] = process.argv.slice(1)
    writeHeapSnapshot(start)
    globalThis.held = Array.from({ length: 10_000 }, (_, i) => ({ at: i / 3, more: [i] }))
    writeHeapSnapshot(objects)
    const source = 'x=y?x+1:y-x;'.repeat(2000)
    globalThis.act = new Function('x', 'y', source)
    for (let i = 0; i < 1000; i++) act(1, 2)
    writeHeapSnapshot(code)`
  execFileSync(process.execPath, ['-e', program, ...paths])
  const [start, objects, code] = paths.map(objectBytes)
  rmSync(folder, { recursive: true })
  expect(objects - start).toBeGreaterThan(10_000 * 60)
  expect(objects - start).toBeLessThan(10_000 * 160)
  // The function's source, and not the ten times as much that becomes of it.
  expect(code - objects).toBeLessThan(100_000)
})
