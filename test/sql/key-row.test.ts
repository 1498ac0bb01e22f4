import { expect, test } from '@jest/globals'
import { parseLimit } from '../../src/limiter/core/limit.js'
import { KeyRow, RowDraft } from '../../src/sql/key-row.js'

test('a write after the clock has run back says how far a state reaches that it leaves as it is', () => {
  const limit = parseLimit({ quota: 10, window: '1m', algorithm: 'token-bucket' })
  const written = (row: KeyRow, at: number, change: (draft: RowDraft) => void) => {
    const draft = new RowDraft('key', row)
    change(draft)
    return draft.written(String(at), at).row
  }
  const spent = written(KeyRow.none, 1000, draft => {
    Object.assign(draft.change({ limit }), { state: { level: 1, at: 1000 }, until: 60_000 })
  })
  expect(spent.at).toBe(1000)
  const blocked = written(spent, 500, draft => {
    draft.change({ limit }).blockedUntil = 9000
  })
  expect(blocked.at).toBe(1000)
  const corrected = written(blocked, 600, draft => {
    draft.change({ limit }).state = { level: 1, at: 600 }
  })
  expect(corrected.at).toBe(600)
  const other = parseLimit({ quota: 5, window: '1h', algorithm: 'token-bucket' })
  const added = written(spent, 500, draft => {
    Object.assign(draft.change({ limit: other }), { state: { level: 1, at: 500 }, until: 60_000 })
  })
  expect(added.at).toBe(1000)
})
