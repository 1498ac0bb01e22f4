import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { TurnBatch } from '../../src/redis/turn-batch.js'

const gather = (most = 3) => {
  const sent: string[] = []
  const gathering = new TurnBatch<string>(
    (last, ask) => last[0] === ask[0],
    most,
    asks => sent.push(asks.join(' ')),
  )
  return { gathering, sent }
}

describe('what is asked in one turn', () => {
  test('goes in one call as far as it is alike and follows one another, at most so many', async () => {
    const { gathering, sent } = gather()
    for (const ask of ['a1', 'a2', 'b1', 'a3', 'a4', 'a5', 'a6']) gathering.add(ask)
    expect(sent).toEqual([])
    await turn()
    expect(sent).toEqual(['a1 a2', 'b1', 'a3 a4 a5', 'a6'])
  })

  test('goes before all else where it is told to, together', async () => {
    const { gathering, sent } = gather()
    gathering.add('a1')
    gathering.add('b1', true)
    gathering.add('a2')
    gathering.add('b2', true)
    await turn()
    expect(sent).toEqual(['b1 b2', 'a1 a2'])
  })

  test('goes at once before what must not overtake it, and not again', async () => {
    const { gathering, sent } = gather()
    gathering.add('a1')
    gathering.flush()
    expect(sent).toEqual(['a1'])
    gathering.add('a2')
    await turn()
    await turn()
    expect(sent).toEqual(['a1', 'a2'])
  })
})
