import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { type ResponseEnd, ResponseWatch } from '../../src/http/response-watch.js'

/** A client that the test moves by hand, and how often it is being listened to. */
class HandClient {
  gone = false
  stuck = false
  taken = 0
  listeners = 0
  watch() {
    this.listeners++
  }
  unwatch() {
    this.listeners--
  }
}

let client: HandClient
let watch: ResponseWatch
let heard: ResponseEnd[]
beforeEach(() => {
  jest.useFakeTimers()
  client = new HandClient()
  watch = new ResponseWatch(() => client)
  heard = []
})
afterEach(() => void jest.useRealTimers())

const leave = () => {
  client.gone = true
  watch.leave()
}
const left = () => [client.listeners, jest.getTimerCount()]

const ENDS: Record<string, ResponseEnd> = {
  completed: { completed: true, ended: true },
  aborted: { completed: false, ended: true },
  expired: { completed: false, ended: false },
}

const FOR_EVER = Number.POSITIVE_INFINITY
const ALL = 1e12

/**
 * What happens to a response, step by step: an event, or ms that pass. `: expired` and so on: what its listener hears
 * in that step; in the others it hears nothing. `stuck` and `flows`: whether the response can go on; `held up`: that
 * it cannot is reported; `gone`: the client has gone, and nothing says so.
 */
test.each<[what: string, withinMs: number, steps: string]>([
  ['the end is reported once, in the turn in which it comes', 30_000, `listen; end: completed; end; leave; ${ALL}`],
  ['an end after the client has gone is reported as such', 30_000, 'listen; leave; 29999; end: aborted'],
  ['a missing end is reported so long after the client went', 30_000, 'listen; 1e5; leave; 29999; 1: expired; end'],
  ['who does not wait hears at once that the client has gone', 0, 'listen; leave: expired; listen: expired'],
  ['who waits for ever has no timer', FOR_EVER, `listen; leave; ${ALL}; end: aborted`],
  ['a wait that is longer than a timer can hold does not end at once', 2 ** 40, 'listen; leave; 1000; end: aborted'],
  ['of a client that went before anybody listened, the time counts from then', 10, 'gone; listen; 9; 1: expired'],
  ['a listener that is removed is not called', 10, `listen; leave; forget; ${ALL}; end`],
  ['a listener that is added after the end is called at once', 10, 'end; listen: completed'],
  ['a stream that is detached ends nothing for other listeners', 10, 'listen; leave; detach; end: aborted'],
  ['held up, it ends so long after its client took something last', 100, 'listen; 1e3; stuck; held up; 99; 1: expired'],
  [
    'flowing again, it has as much time the next time',
    100,
    'listen; stuck; held up; flows; 90; stuck; held up; 99; 1: expired',
  ],
  [
    'held up, it does not end for a listener that gives its client no bound',
    0,
    `listen; stuck; held up; ${ALL}; end: completed`,
  ],
  ['nor for one that waits for ever', FOR_EVER, `listen; stuck; held up; ${ALL}; end: completed`],
  [
    'held up, it gives its handler the whole time again when the client goes',
    100,
    'listen; stuck; held up; 99; leave; 99; 1: expired',
  ],
  ['and so if it went without a word, from when that is noticed', 100, 'listen; stuck; held up; gone; 199; 1: expired'],
  ['returned by its handler, it ends when its client goes', 100, 'listen; hand over; leave: aborted'],
  ['and at once if the client has gone before', 100, 'listen; leave; hand over: aborted'],
  [
    'returned by its handler and sent by nobody, it ends after that time',
    100,
    'listen; stuck; hand over; 99; 1: expired',
  ],
])('%s', (_, withinMs, steps) => {
  let waiting = 0
  const forget: Array<() => void> = []
  const acts: Record<string, () => void> = {
    listen: () => {
      waiting++
      const hear = (end: ResponseEnd) => {
        waiting--
        heard.push(end)
      }
      forget.push(watch.onEnd({ withinMs }, hear))
    },
    forget: () => {
      for (const each of forget) each()
      waiting = 0
    },
    end: () => watch.end(),
    leave,
    gone: () => {
      client.gone = true
    },
    stuck: () => {
      client.stuck = true
    },
    flows: () => {
      client.stuck = false
    },
    detach: () => watch.detach(),
    'held up': () => watch.holdUp(),
    'hand over': () => watch.handOver(),
  }
  for (const step of steps.split('; ')) {
    const [act, end] = step.split(': ')
    heard = []
    if (acts[act]) acts[act]()
    else jest.advanceTimersByTime(Number(act))
    expect([step, heard]).toEqual([step, end === undefined ? [] : [ENDS[end]]])
    // Nothing is left behind, and nobody who waits for ever keeps a timer.
    expect([step, client.listeners]).toEqual([step, waiting > 0 ? 1 : 0])
    if (waiting === 0 || withinMs === 0 || withinMs === FOR_EVER)
      expect([step, ...left()]).toEqual([step, client.listeners, 0])
  }
  expect(waiting).toBe(0)
})

test('what was taken since the last look counts as taken when it is looked at next, within the time', () => {
  watch.onEnd({ withinMs: 100 }, end => heard.push(end))
  client.stuck = true
  watch.holdUp()
  jest.advanceTimersByTime(60)
  client.taken++
  jest.advanceTimersByTime(139)
  expect(heard).toEqual([])
  jest.advanceTimersByTime(1)
  expect([heard, ...left()]).toEqual([[ENDS.expired], 0, 0])
})

test('a stream that is detached ends the response for listeners that want this, once the client has gone', () => {
  watch.onEnd({ withinMs: 10, orDetached: true }, end => heard.push(end))
  watch.detach()
  leave()
  expect(heard).toEqual([])
  watch.detach()
  expect([heard, ...left()]).toEqual([[ENDS.expired], 0, 0])
})

describe('a client', () => {
  test('that stays is waited for until the given time', async () => {
    const staying = watch.stays(50)
    jest.advanceTimersByTime(50)
    expect([await staying, ...left()]).toEqual([true, 0, 0])
  })

  test('that goes, or gets its answer meanwhile, is not waited for', async () => {
    const staying = watch.stays(3_600_000)
    leave()
    expect([await staying, ...left()]).toEqual([false, 0, 0])
    watch.end()
    expect(await watch.stays(3_600_000)).toBe(false)
  })

  test('that waits longer than a timer can hold is not answered at once', () => {
    void watch.stays(2 ** 40).then(() => heard.push(ENDS.completed))
    jest.advanceTimersByTime(1000)
    expect([heard, ...left()]).toEqual([[], 1, 1])
  })
})
