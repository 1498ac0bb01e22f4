import { expect, test } from '@jest/globals'
import { type Ringing, realTiming, type Timing } from '../../../src/limiter/core/alarms.js'
import { Wait } from '../../../src/limiter/core/wait.js'
import type { LineAnswer } from '../../../src/waiting/line/line-answer.js'
import { LineMembership, type LineWaiter } from '../../../src/waiting/line/line-membership.js'
import { isLateOnce, type LineAsk, type LineUser } from '../../../src/waiting/line/line-user.js'
import { WaitingLine } from '../../../src/waiting/line/waiting-line.js'
import { answerText, changesOf } from '../../support/line-words.js'

const userOf = (send: (ask: LineAsk) => Promise<unknown>, granted: () => void = () => {}): LineUser<void> => ({
  width: 0,
  deadlineMs: 1e9,
  isLate: isLateOnce,
  mailbox: { address: 'p/0', canHear: true, hold() {}, release() {} },
  ready: () => true,
  isFault: () => false,
  send,
  grant: granted,
  refusal: () => new Error('refused'),
  timedOut: () => new Error('timed out'),
  ended: () => new Error('ended'),
  failed: cause => new Error('failed', { cause }),
})

const never = () => new Promise(() => {})

const waiterOf = (details: string): LineWaiter<void> => {
  const wait = new Wait<void>({ timeoutMs: Number.POSITIVE_INFINITY, signal: undefined }, () => undefined)
  wait.promise.catch(() => {})
  return {
    cost: 1,
    details,
    wait,
    joinedAt: 0,
    waits: true,
    place: 'outside',
    number: 0,
    ticket: undefined,
    grant: '',
    wasLate: false,
    outage: undefined,
    isAway: false,
  }
}

const ANSWER: LineAnswer = {
  code: 1,
  stamp: '1',
  grantedAt: 5,
  ageMs: 0,
  nextMs: 1000,
  waiting: 0,
  ticket: 7,
  capacity: 10,
  lateMs: 50,
  granted: [],
  refused: [],
  changes: [],
}

/**
 * A member whose second ask gives back a grant, ends something of the user's own, and is never answered. Another waiter
 * is in the line.
 */
function unanswered() {
  const membership = new LineMembership<void>(userOf(never))
  const [gone, stays] = [waiterOf('gone'), waiterOf('stays')]
  membership.join(gone)
  membership.join(stays)
  const first = membership.nextAsk(0)
  membership.reject(gone, new Error('it has given up'))
  membership.read(first, { ...ANSWER, waiting: 1, granted: [{ number: gone.number, facts: ['9', '700'] }] }, 0, 0)
  const told: number[] = []
  const answered = (number: number) => told.push(number)
  membership.changes.custom.push({ letter: 'e', words: ['lease', '3', ''], answered, failed: () => {} })
  const second = membership.nextAsk(0)
  expect(changesOf(second.ask.words[5])).toEqual(['r', '0 1 gone', '', '5 9 700', 'e', 'lease', '3', ''])
  return { membership, second, told }
}

test('a process repeats the changes of an ask that it gives up, except units that may have been given back already', () => {
  const { membership, second, told } = unanswered()
  membership.abandonAsk(second)
  membership.rejoin()
  const next = membership.nextAsk(0)
  const [member, number, stamp, replaces, , text] = next.ask.words
  expect([number, stamp, replaces]).toEqual(['1', '', second.ask.member])
  expect(member).not.toBe(second.ask.member)
  // The waiter brings the ticket that it had.
  expect(changesOf(text)).toEqual(['e', 'lease', '3', '', 'j', '2 1 stays', '8', '-1'])
  membership.read(next, { ...ANSWER, waiting: 1, changes: [1] }, 0, 0)
  expect(told).toEqual([1])
})

test('a process sends all changes of an ask that was not carried out again', () => {
  const { membership, second } = unanswered()
  membership.putBack(second)
  membership.rejoin()
  const changes = changesOf(membership.nextAsk(0).ask.words[5])
  expect(changes).toEqual(['r', '0 1 gone', '', '5 9 700', 'e', 'lease', '3', '', 'j', '2 1 stays', '8', '-1'])
})

test('a process sends what still matters of an ask that came too late in its next ask, which has the same number', () => {
  const { membership, second, told } = unanswered()
  const leaves = [...membership.waiters][0]
  membership.takeBack(second)
  membership.reject(leaves, new Error('it has given up'))
  const [late, early] = [waiterOf('late'), waiterOf('early')]
  membership.join(late)
  membership.join(early)
  const third = membership.nextAsk(0)
  membership.reject(late, new Error('it has given up'))
  membership.takeBack(third)
  const next = membership.nextAsk(0)
  const [member, number, stamp, replaces, first, text] = next.ask.words
  expect([member, number, stamp, replaces, first]).toEqual([second.ask.member, '2', '1', '', ''])
  const changes = [
    'l',
    '1 1 stays',
    '',
    '',
    'r',
    '0 1 gone',
    '',
    '5 9 700',
    'e',
    'lease',
    '3',
    '',
    'j',
    '4 1 early',
    '',
    '-1',
  ]
  expect(changesOf(text)).toEqual(changes)
  expect([...membership.waiters]).toEqual([early])
  expect(membership.read(next, { ...ANSWER, waiting: 1, changes: [1] }, 0, 0)).toBe(true)
  expect(told).toEqual([1])
})

test('a waiter that was granted too late gives the grant back and joins with its ticket, before newcomers', () => {
  const membership = new LineMembership<void>(userOf(never))
  const waiter = waiterOf('w')
  membership.join(waiter)
  const first = membership.nextAsk(0)
  membership.join(waiterOf('newcomer'))
  membership.read(first, { ...ANSWER, granted: [{ number: waiter.number, facts: ['9'] }] }, 1000, 0)
  const changes = changesOf(membership.nextAsk(1000).ask.words[5])
  expect(changes).toEqual(['r', '0 1 w', '', '5 9', 'j', '1 1 w', '7', '-1', 'j', '2 1 newcomer', '', '-1'])
})

test('at most 64 waiters join or leave in one ask', () => {
  const membership = new LineMembership<void>(userOf(never))
  for (let i = 0; i < 300; i++) membership.join(waiterOf(`w${i}`))
  expect(changesOf(membership.nextAsk(0).ask.words[5]).filter(word => word === 'j')).toHaveLength(64)
})

/** Time that the test moves. */
function manualTiming() {
  const alarms = new Map<Ringing, { at: number; ring: () => void }>()
  let [now, turns] = [1_000_000, [] as Array<() => void>]
  const timing: Timing = {
    now: () => now,
    nextTurn: run => turns.push(run),
    alarm(ring) {
      const alarm: Ringing = {
        set: at => (at === Number.POSITIVE_INFINITY ? alarm.clear() : alarms.set(alarm, { at, ring })),
        clear: () => alarms.delete(alarm),
      }
      return alarm
    },
  }
  const advance = async (ms: number) => {
    for (const until = now + ms; ; ) {
      await new Promise(setImmediate)
      const next = [...alarms].sort(([, one], [, two]) => one.at - two.at)[0]
      if (turns.length > 0) for (const run of turns.splice(0)) run()
      else if (next !== undefined && next[1].at <= until) {
        now = Math.max(now, next[1].at)
        next[0].clear()
        next[1].ring()
      } else {
        now = until
        return
      }
    }
  }
  return { timing, advance }
}

test('a waiter whose ask is not answered for longer than the server remembers it is granted once, under a new member', async () => {
  const { timing, advance } = manualTiming()
  const asks: LineAsk[] = []
  let [isSilent, granted] = [true, 0]
  const send = (ask: LineAsk) => {
    asks.push(ask)
    return isSilent
      ? never()
      : Promise.resolve(answerText([1, '9', timing.now(), 0, 5000, 0, 7, 1, 50, [0, 1], [], []]))
  }
  const line = new WaitingLine<void>(
    userOf(send, () => granted++),
    timing,
  )
  const waits = line.wait(1, 'w', { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined })
  await advance(0)
  const first = line.member
  await advance(49_000)
  // All copies are one ask of one member.
  expect([granted, line.member, new Set(asks.map(({ words }) => words.join())).size]).toEqual([0, first, 1])
  await advance(11_000)
  expect([granted, line.member === first, asks.at(-1)?.replaces]).toEqual([0, false, first])
  isSilent = false
  await advance(5000)
  await waits
  expect(granted).toBe(1)
})

test('what a process without waiters could not send goes when the client is ready, not only a second later', async () => {
  const { timing, advance } = manualTiming()
  const listeners = new Set<() => void>()
  let isReady = false
  let fails = true
  const asks: LineAsk[] = []
  const user: LineUser<void> = {
    ...userOf(ask => {
      asks.push(ask)
      if (fails) return Promise.reject(new Error('the connection is gone'))
      return Promise.resolve(answerText([1, '9', timing.now(), 0, 5000, 0, 0, 1, 50, [], [], [1]]))
    }),
    ready: () => isReady,
    onReady(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  const line = new WaitingLine<void>(user, timing)
  const ends = line.change('e', ['lease', '3', ''])
  await advance(1)
  expect([asks.length, listeners.size]).toEqual([0, 1])
  isReady = true
  for (const listener of listeners) listener()
  await advance(1)
  // It was sent at once, and its connection was lost.
  expect(asks.length).toBe(1)
  fails = false
  for (const listener of listeners) listener()
  await advance(1)
  expect(await ends).toBe(1)
  // Whoever has nothing to send does not listen.
  expect([asks.length, listeners.size, line.isIdle]).toEqual([2, 0, true])
})

/** Real time, and the alarms that are set and keep a process alive. */
function watchedTiming(): { timing: Timing; pending: Set<Ringing> } {
  const pending = new Set<Ringing>()
  const alarmOf = (ring: () => void, keepsAlive = true): Ringing => {
    const alarm = realTiming.alarm(() => {
      pending.delete(alarm)
      ring()
    }, keepsAlive)
    return {
      set(at) {
        if (keepsAlive && at < Number.POSITIVE_INFINITY) pending.add(alarm)
        else pending.delete(alarm)
        alarm.set(at)
      },
      clear() {
        pending.delete(alarm)
        alarm.clear()
      },
    }
  }
  return { timing: { ...realTiming, alarm: alarmOf }, pending }
}

test('after all waiters are rejected, no timer keeps the process alive, though their ask is unanswered; a later waiter is rejected at its deadline too', async () => {
  const { timing, pending } = watchedTiming()
  const user: LineUser<void> = { ...userOf(never), deadlineMs: 20 }
  const line = new WaitingLine<void>(user, timing)
  const rejected = () =>
    expect(line.wait(1, 'w', { timeoutMs: Number.POSITIVE_INFINITY, signal: undefined })).rejects.toThrow('failed')
  await Promise.all([rejected(), rejected()])
  await new Promise(setImmediate)
  expect(pending.size).toBe(0)
  const startedAt = performance.now()
  const later = rejected()
  expect(pending.size).toBe(1)
  await later
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(20)
  await new Promise(setImmediate)
  expect(pending.size).toBe(0)
})
