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
const hear = (end: ResponseEnd) => void heard.push(end)
const leave = () => {
  client.gone = true
  watch.leave()
}

beforeEach(() => {
  jest.useFakeTimers()
  client = new HandClient()
  watch = new ResponseWatch(() => client)
  heard = []
})
afterEach(() => {
  jest.useRealTimers()
})

const left = () => [client.listeners, jest.getTimerCount()]

test('the end is reported once, in the turn in which it comes, and leaves nothing behind', () => {
  watch.onEnd({ withinMs: 30_000 }, hear)
  expect(left()).toEqual([1, 0])
  watch.end()
  expect(heard).toEqual([{ completed: true, ended: true }])
  watch.end()
  leave()
  jest.runAllTimers()
  expect([heard.length, ...left()]).toEqual([1, 0, 0])
})

test('an end after the client has gone is reported as such', () => {
  watch.onEnd({ withinMs: 30_000 }, hear)
  leave()
  expect([heard, ...left()]).toEqual([[], 1, 1])
  jest.advanceTimersByTime(29_999)
  watch.end()
  expect([heard, ...left()]).toEqual([[{ completed: false, ended: true }], 0, 0])
})

test('a missing end is reported after a given time since the client went away', () => {
  watch.onEnd({ withinMs: 30_000 }, hear)
  jest.advanceTimersByTime(100_000)
  leave()
  jest.advanceTimersByTime(29_999)
  expect(heard).toEqual([])
  jest.advanceTimersByTime(1)
  expect([heard, ...left()]).toEqual([[{ completed: false, ended: false }], 0, 0])
  watch.end()
  expect(heard.length).toBe(1)
})

test('a listener that does not wait hears at once that the client has gone', () => {
  watch.onEnd({ withinMs: 0 }, hear)
  leave()
  watch.onEnd({ withinMs: 0 }, hear)
  expect([heard.length, ...left()]).toEqual([2, 0, 0])
})

test('a listener that waits for ever has no timer', () => {
  watch.onEnd({ withinMs: Number.POSITIVE_INFINITY }, hear)
  leave()
  expect(left()).toEqual([1, 0])
  watch.end()
  expect(heard).toEqual([{ completed: false, ended: true }])
})

test('a wait longer than a timer can hold does not end at once', () => {
  watch.onEnd({ withinMs: 2 ** 40 }, hear)
  leave()
  jest.advanceTimersByTime(1000)
  expect(heard).toEqual([])
})

test('a client that has gone before anybody listened is noticed, and the time counts from then', () => {
  client.gone = true
  watch.onEnd({ withinMs: 10 }, hear)
  expect(watch.gone).toBe(true)
  jest.advanceTimersByTime(10)
  expect([heard, ...left()]).toEqual([[{ completed: false, ended: false }], 0, 0])
})

test('a removed listener is not called', () => {
  const forget = watch.onEnd({ withinMs: 10 }, hear)
  leave()
  forget()
  jest.runAllTimers()
  watch.end()
  expect([heard, ...left()]).toEqual([[], 0, 0])
})

test('a listener that is added after the end is called at once', () => {
  watch.end()
  watch.onEnd({ withinMs: 10 }, hear)
  expect([heard, ...left()]).toEqual([[{ completed: true, ended: true }], 0, 0])
})

describe('a stream that is detached', () => {
  test('ends the response for listeners that want this, once the client has gone', () => {
    watch.onEnd({ withinMs: 10, orDetached: true }, hear)
    watch.detach()
    expect(heard).toEqual([])
    leave()
    expect(heard).toEqual([])
    watch.detach()
    expect([heard, ...left()]).toEqual([[{ completed: false, ended: false }], 0, 0])
  })

  test('has no meaning for other listeners', () => {
    watch.onEnd({ withinMs: 10 }, hear)
    leave()
    watch.detach()
    expect(heard).toEqual([])
  })
})

describe('a response that is held up', () => {
  const holdUp = () => {
    client.stuck = true
    watch.holdUp()
  }

  test('ends a given time after its client took something last', () => {
    watch.onEnd({ withinMs: 100 }, hear)
    jest.advanceTimersByTime(1000)
    holdUp()
    jest.advanceTimersByTime(60)
    client.taken++
    jest.advanceTimersByTime(40)
    // It is looked at once within the time: what was taken since the last look counts as taken now.
    jest.advanceTimersByTime(99)
    expect(heard).toEqual([])
    jest.advanceTimersByTime(1)
    expect([heard, ...left()]).toEqual([[{ completed: false, ended: false }], 0, 0])
  })

  test('and flows again has as much time when it is held up the next time', () => {
    watch.onEnd({ withinMs: 100 }, hear)
    holdUp()
    client.stuck = false
    jest.advanceTimersByTime(90)
    holdUp()
    jest.advanceTimersByTime(99)
    expect(heard).toEqual([])
    jest.advanceTimersByTime(1)
    expect(heard).toEqual([{ completed: false, ended: false }])
  })

  test('does not end for a listener that gives its client no bound', () => {
    watch.onEnd({ withinMs: 0 }, hear)
    watch.onEnd({ withinMs: Number.POSITIVE_INFINITY }, hear)
    holdUp()
    jest.runAllTimers()
    expect([heard, ...left()]).toEqual([[], 1, 0])
  })

  test('gives the handler the whole time again when its client goes', () => {
    watch.onEnd({ withinMs: 100 }, hear)
    holdUp()
    jest.advanceTimersByTime(99)
    leave()
    jest.advanceTimersByTime(99)
    expect(heard).toEqual([])
    jest.advanceTimersByTime(1)
    expect([heard, ...left()]).toEqual([[{ completed: false, ended: false }], 0, 0])
  })

  test('whose client has gone without a word is given the time from when that is noticed', () => {
    watch.onEnd({ withinMs: 100 }, hear)
    holdUp()
    client.gone = true
    jest.advanceTimersByTime(199)
    expect(heard).toEqual([])
    jest.advanceTimersByTime(1)
    expect([heard, ...left()]).toEqual([[{ completed: false, ended: false }], 0, 0])
  })
})

describe('a response that its handler has returned', () => {
  test('ends when its client goes', () => {
    watch.onEnd({ withinMs: 100 }, hear)
    watch.handOver()
    leave()
    expect([heard, ...left()]).toEqual([[{ completed: false, ended: true }], 0, 0])
  })

  test('ends at once if its client has gone before', () => {
    watch.onEnd({ withinMs: 100 }, hear)
    leave()
    watch.handOver()
    expect([heard, ...left()]).toEqual([[{ completed: false, ended: true }], 0, 0])
  })

  test('and that nobody sends ends after a given time', () => {
    watch.onEnd({ withinMs: 100 }, hear)
    client.stuck = true
    watch.handOver()
    jest.advanceTimersByTime(99)
    expect(heard).toEqual([])
    jest.advanceTimersByTime(1)
    expect([heard, ...left()]).toEqual([[{ completed: false, ended: false }], 0, 0])
  })
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
    void watch.stays(2 ** 40).then(() => heard.push({ completed: true, ended: true }))
    jest.advanceTimersByTime(1000)
    expect([heard, ...left()]).toEqual([[], 1, 1])
  })
})
