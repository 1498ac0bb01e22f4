import { expect, test } from '@jest/globals'
import { returnsOf } from '../../src/delay-queue/turn.js'

test('everything that an answer had taken for which nobody waits is given back, due when it was', () => {
  const rows = ['receipt 1', 1000, 31_000, 'a record', 'receipt 2', '1200', '31000', 'another']
  expect(returnsOf([[], 1500, -1, -1, rows], 0)).toEqual([
    { what: 'return', receipt: 'receipt 1', until: 31_000, detail: '1000' },
    { what: 'return', receipt: 'receipt 2', until: 31_000, detail: '1200' },
  ])
})
