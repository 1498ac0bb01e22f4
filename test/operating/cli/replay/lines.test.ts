import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { LineCutter } from '../../../../src/operating/cli/replay/log-source.js'
import { ofCases } from '../../../support/cases.js'

const TOO_LONG = '(too long)'

function cut(blocks: readonly Buffer[], maxBytes: number): string[] {
  const lines: string[] = []
  const cutter = new LineCutter(
    {
      line: (bytes, start, end) => lines.push(bytes.toString('latin1', start, end)),
      overlongLine: () => lines.push(TOO_LONG),
    },
    maxBytes,
  )
  for (const block of blocks) cutter.push(block)
  cutter.end()
  return lines
}

test('the last line needs no newline, and a newline at the end begins no line', () => {
  expect(cut([Buffer.from('a\nb')], 9)).toEqual(['a', 'b'])
  expect(cut([Buffer.from('a\nb\n')], 9)).toEqual(['a', 'b'])
  expect(cut([], 9)).toEqual([])
})

test('lines may be blank, and may end as on Windows', () => {
  expect(cut([Buffer.from('\n\r\na\r\n')], 9)).toEqual(['', '', 'a'])
})

test('lines are the same however the bytes come in blocks', () => {
  const byte = fc.constantFrom(10, 13, 97, 0)
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 12 })), fc.array(byte), fc.nat(6), (junk, tail, maxBytes) => {
      const blocks = [...junk, Uint8Array.from(tail)].map(bytes => Buffer.from(bytes.map(b => (b % 4 === 0 ? 10 : b))))
      const whole = Buffer.concat(blocks).toString('latin1')
      const expected = whole.split('\n').map(line => (line.length > maxBytes ? TOO_LONG : line.replace(/\r$/, '')))
      if (whole === '' || whole.endsWith('\n')) expected.pop()
      expect(cut(blocks, maxBytes)).toEqual(expected)
    }),
    { numRuns: ofCases(1000) },
  )
})

test('a line of 100 MB is one line, and almost nothing of it is kept in memory', () => {
  const lines: string[] = []
  const cutter = new LineCutter(
    { line: (b, s, e) => lines.push(b.toString('latin1', s, e)), overlongLine: () => lines.push(TOO_LONG) },
    1024,
  )
  const block = Buffer.alloc(1_000_000, 'x')
  cutter.push(Buffer.from('before\n'))
  const before = process.memoryUsage().arrayBuffers
  for (let i = 0; i < 100; i++) cutter.push(block)
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000)
  cutter.push(Buffer.from('\nafter\n'))
  cutter.end()
  expect(lines).toEqual(['before', TOO_LONG, 'after'])
})
