import { measure, type State } from '../../src/limiter/algorithms/registry.js'
import type { Limit } from '../../src/limiter/core/limit.js'
import type { MostAllowed } from './most-allowed.js'

/**
 * One possible situation: the state of the limit, and the units that were allowed and that left within the last window.
 */
interface Course {
  readonly state: State | undefined
  readonly allowed: readonly number[]
  readonly leaving: readonly number[]
}

/**
 * The most units in any window under all possible traffic during three windows: any number of requests of cost 1 in
 * every millisecond. For tiny limits only, because the number of situations grows exponentially.
 */
export function mostInAllTraffic(limit: Limit): MostAllowed {
  const most = { allowed: 0, leaving: 0 }
  let courses = new Map<string, Course>([['', { state: undefined, allowed: [], leaving: [] }]])
  for (let at = 0; at < 3 * limit.windowMs; at++) {
    const next = new Map<string, Course>()
    for (const course of courses.values()) {
      for (const one of continuations(limit, course, at)) {
        most.allowed = Math.max(most.allowed, one.allowed.length)
        most.leaving = Math.max(
          most.leaving,
          ...one.leaving.map(from => countWithin(one.leaving, from, limit.windowMs)),
        )
        next.set(JSON.stringify(one), one)
      }
    }
    courses = next
  }
  return most
}

/** No request at this moment, one, two, and so on until one is denied. */
function continuations(limit: Limit, { state, allowed, leaving }: Course, at: number): Course[] {
  let course: Course = {
    state,
    allowed: allowed.filter(time => at - time < limit.windowMs),
    leaving: leaving.filter(time => at - time < limit.windowMs),
  }
  const all = [course]
  for (;;) {
    // A multiple of the window, since a sliding counter's cells are.
    const { verdict, next } = measure(limit, course.state, 1000 * limit.windowMs + at, 1)
    if (!verdict.allowed) return all
    course = {
      // States may share data, but these situations develop differently.
      state: structuredClone(next),
      allowed: [...course.allowed, at],
      leaving: [...course.leaving, at + verdict.delayMs],
    }
    all.push(course)
  }
}

function countWithin(times: readonly number[], from: number, spanMs: number): number {
  return times.filter(time => time >= from && time < from + spanMs).length
}
