import { afterEach, beforeEach, jest } from '@jest/globals'

/** How many timers keep the process alive. */
export function timers(): number {
  return process.getActiveResourcesInfo().filter(resource => resource === 'Timeout').length
}

/**
 * Where waits are measured: time stands still but for the timers that a call waits for, so that a slow machine changes
 * nothing.
 */
export function withoutHaste(): void {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] }))
  afterEach(() => void jest.useRealTimers())
}

/** What a call gives, the clock being moved to each timer that it waits for. */
export async function end<T>(call: Promise<T>): Promise<T> {
  let ended = false
  const end = () => {
    ended = true
  }
  call.then(end, end)
  for (;;) {
    for (let turns = 0; turns < 5; turns++) await new Promise(resolve => setImmediate(resolve))
    if (ended) return call
    jest.advanceTimersToNextTimer()
  }
}
