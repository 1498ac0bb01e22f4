import { expect, test } from '@jest/globals'
import { parseFetchReply, returnOf } from '../../../src/waiting/queue/fetch.js'

test('a message that no receiver takes is given back with its due moment', () => {
  const rows = ['receipt 1', 1000, 31_000, 'a record', 'receipt 2', '1200', '31000', 'another']
  const { taken } = parseFetchReply([[], 1500, -1, -1, rows], '', 0)
  expect(taken.map(returnOf)).toEqual([
    { what: 'return', receipt: 'receipt 1', until: 31_000, detail: '1000' },
    { what: 'return', receipt: 'receipt 2', until: 31_000, detail: '1200' },
  ])
})
