import { describe, expect, test } from '@jest/globals'
import { type QueuedTurn, TurnQueue } from '../../src/limiter/turn-queue.js'
import { eventually } from '../support/redis-process.js'

/** A procession that notes who arrives and when it is empty. */
function procession() {
  const arrived: string[] = []
  let emptied = () => {}
  const empty = new Promise<void>(resolve => {
    emptied = resolve
  })
  const walking = new TurnQueue(() => {
    arrived.push('nobody is left')
    emptied()
  })
  const walker = (name: string, inMs: number): QueuedTurn => ({
    turnAt: performance.now() + inMs,
    arrive: () => void arrived.push(name),
  })
  return { walking, walker, arrived, empty }
}

describe('a procession', () => {
  test('arrives in its order, nobody before its turn', async () => {
    const { walking, walker, arrived, empty } = procession()
    const startedAt = performance.now()
    for (const [name, inMs] of [
      ['a', 10],
      ['b', 10],
      ['c', 40],
    ] as const) {
      walking.join(walker(name, inMs))
    }
    await empty
    expect(arrived).toEqual(['a', 'b', 'c', 'nobody is left'])
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(40)
  })

  test('lets nobody overtake whose answer was the quicker one: whoever booked before has come by then', async () => {
    const { walking, walker, arrived, empty } = procession()
    walking.join(walker('told late that it is soon', 3_600_000))
    walking.join(walker('told early', 20))
    await empty
    expect(arrived).toEqual(['told late that it is soon', 'told early', 'nobody is left'])
  })

  test('goes on when one of them leaves', async () => {
    const { walking, walker, arrived } = procession()
    const first = walker('first', 3_600_000)
    walking.join(first)
    walking.leave(first)
    walking.leave(first)
    walking.join(walker('second', 5))
    await eventually('the second has come', async () => arrived.length === 3)
    expect(arrived).toEqual(['nobody is left', 'second', 'nobody is left'])
  })

  test('arrives sooner or later when its turns move', async () => {
    const { walking, walker, arrived, empty } = procession()
    const [sooner, later] = [walker('sooner', 3_600_000), walker('later', 3_600_000)]
    walking.join(sooner)
    walking.join(later)
    const startedAt = performance.now()
    walking.move(later, 40)
    walking.move(sooner, 0)
    await empty
    expect(arrived).toEqual(['sooner', 'later', 'nobody is left'])
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(40)
  })
})
