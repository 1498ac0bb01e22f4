import { describe, expect, test } from '@jest/globals'
import { check, textOf } from './checker.js'
import type {
  Bounds,
  Changed,
  Decided,
  Fault,
  Held,
  History,
  Limit,
  Look,
  Message,
  Operation,
  Subject,
} from './history.js'
import { honest, SUBJECTS, withFaults } from './honest.js'

type Facts = Partial<Omit<Decided, 'op'> & Omit<Changed, 'op'> & Omit<Held, 'op'> & Omit<Message, 'op'>> & {
  readonly op?: Operation['op']
  readonly limits?: readonly Limit[]
}

let last = 1_000_000
/** An operation beside those of a history. */
const operation = (subject: string, askedAt: number, facts: Facts): Operation => {
  const common = { id: ++last, process: 'p1', subject, key: 'planted', askedAt, answeredAt: askedAt + 2 }
  const cost = facts.op === undefined ? { op: 'consume', cost: 1, allowed: true, source: 'store' } : {}
  return { ...common, ...cost, ...facts } as Operation
}
const adding =
  (...planted: Operation[]) =>
  (history: History): History => ({ ...history, operations: [...history.operations, ...planted] })
/** What somebody finds when all has ended, by default long after. */
const finding =
  (subject: string, found: Partial<Look>) =>
  (history: History): History => {
    const place = { subject, key: 'planted', askedAt: 60_000, answeredAt: 60_001 }
    return { ...history, looks: [{ ...place, ...found }] }
  }
const grants = (subject: string, count: number, everyMs: number, facts: Facts = {}): Operation[] =>
  Array.from({ length: count }, (_, i) => operation(subject, 100 + i * everyMs, facts))
const refusal = { allowed: false, retryAfterMs: 500 }
const request = { op: 'request', cost: 1, source: 'store' } as const
const turn = { op: 'acquire', cost: 1, allowed: true, source: 'store', timeoutMs: 60_000 } as const
const hold = { op: 'hold', permits: 1, granted: true, timeoutMs: 60_000 } as const

/** Each violation by itself: [the rule that must name it, what is planted]. */
const PLANTED: ReadonlyArray<[rule: string, kind: string, plant: (history: History) => History]> = [
  ['over the limit', 'eleven in a sliding window', adding(...grants('sliding', 11, 20))],
  ['over the limit', 'eleven over the boundary of two seconds', adding(...grants('sliding', 11, 90))],
  ['over the limit', 'one request of all units and one', adding(...grants('sliding', 2, 10, { cost: 6 }))],
  ['over the limit', 'out of leases', adding(...grants('sliding', 11, 20, { source: 'lease' }))],
  [
    'over the limit',
    'by several processes',
    adding(...grants('sliding', 11, 20).map((one, i) => ({ ...one, process: `p${i % 3}` }))),
  ],
  ['over the limit', 'eleven in a fixed window', adding(...grants('fixed', 11, 20))],
  ['over the limit', 'three windows in the time of one', adding(...grants('fixed', 21, 40))],
  ['over the limit', 'more than two windows of a counter', adding(...grants('counter', 21, 30))],
  ['over the limit', 'more than the burst of a bucket', adding(...grants('bucket', 23, 5))],
  ['over the limit', 'more than the rate of a bucket', adding(...grants('bucket', 36, 40))],
  ['over the limit', 'more than fits a leaky bucket', adding(...grants('leaky', 8, 5))],
  ['over the limit', 'the second of two limits', adding(...grants('both', 21, 150))],
  [
    'over the limit',
    'a shared rate',
    adding(...grants('rate', 11, 20, { op: 'acquire', cost: 1, allowed: true, source: 'store', timeoutMs: 9e4 })),
  ],
  [
    'over the limit',
    'after a settlement to more',
    adding(...grants('sliding', 11, 20), operation('sliding', 400, { op: 'settle', of: 1, units: 1 })),
  ],
  [
    'over the limit',
    'after limits that became smaller',
    history => {
      const five = [{ algorithm: 'sliding-window', quota: 5, windowMs: 1000, burst: 5 }] as const
      return adding(
        operation('sliding', 24_000, { op: 'limits', key: '', limits: five }),
        ...grants('sliding', 8, 20).map(one => later(one, 26_000)),
      )(history)
    },
  ],
  [
    'over the limit',
    'although a server that lost its keys allows ten more',
    history => withFaults(adding(...grants('sliding', 21, 20))(history), { what: 'lost', from: 150, until: 160 }),
  ],
  [
    'over the limit',
    'although a replica that takes over allows twice as much',
    history => withFaults(adding(...grants('leaky', 36, 28))(history), { what: 'failover', from: 90, until: 1200 }),
  ],
  [
    'over the limit',
    'although a clock that was set on allows ten more',
    history => withFaults(adding(...grants('sliding', 21, 20))(history), { what: 'clock', from: 150, until: 160 }),
  ],
  ['refused in vain', 'a key that nobody has used', adding(operation('sliding', 100, refusal))],
  [
    'refused in vain',
    'what was refused before was spent',
    adding(...grants('sliding', 9, 5), operation('sliding', 150, refusal)),
  ],
  [
    'refused in vain',
    'a bucket that is half full',
    adding(...grants('bucket', 10, 5), operation('bucket', 150, refusal)),
  ],
  ['refused in vain', 'one of two limits', adding(...grants('both', 4, 5), operation('both', 150, refusal))],
  [
    'granted sooner than said',
    'half of the time later',
    adding(
      ...grants('sliding', 10, 1),
      operation('sliding', 200, { ...refusal, retryAfterMs: 5000 }),
      operation('sliding', 2000, {}),
    ),
  ],
  [
    'refused longer than said',
    'twice the time later',
    adding(
      ...grants('sliding', 10, 1),
      operation('sliding', 200, { ...refusal, retryAfterMs: 300 }),
      operation('sliding', 800, { ...refusal, retryAfterMs: 300 }),
    ),
  ],
  [
    'remaining too high',
    'all of them, after five',
    adding(...grants('sliding', 5, 5), operation('sliding', 200, { remaining: 9 })),
  ],
  [
    'granted while blocked',
    'five seconds after a block of a minute',
    adding(operation('sliding', 100, { op: 'block', blockMs: 60_000 }), operation('sliding', 5000, {})),
  ],
  [
    'a refused request was handled',
    'status 429',
    adding(
      ...grants('sliding', 10, 1),
      operation('sliding', 200, { ...request, ...refusal, status: 429, retryAfter: '1', handled: true }),
    ),
  ],
  [
    'no Retry-After',
    'status 429',
    adding(
      ...grants('sliding', 10, 1),
      operation('sliding', 200, { ...request, ...refusal, status: 429, handled: false }),
    ),
  ],
  [
    'an answer without a handler',
    'status 200',
    adding(operation('sliding', 200, { ...request, allowed: true, status: 200, handled: false })),
  ],
  ['the store does not decide', 'without a fault', adding(...grants('sliding', 9, 300, { source: 'fallback' }))],
  [
    'the store does not decide',
    'two seconds after a fault',
    history =>
      withFaults(adding(...grants('sliding', 25, 300, { source: 'open' }))(history), {
        what: 'hang',
        from: 1000,
        until: 3000,
      }),
  ],
  [
    'over the local share',
    'a process alone',
    history =>
      withFaults(adding(...grants('sliding', 6, 10, { source: 'fallback' }))(history), {
        what: 'hang',
        from: 0,
        until: 3000,
      }),
  ],
  [
    'the store does not decide',
    'two seconds after memory was full',
    history =>
      withFaults(adding(...grants('sliding', 12, 300, { source: 'closed' }))(history), {
        what: 'full',
        from: 50,
        until: 400,
      }),
  ],
  [
    'answered too late',
    'the first decision of a process',
    adding({ ...operation('sliding', 100, { source: 'open' }), process: 'p9', answeredAt: 1400 }),
  ],
  ['answered too late', 'a decision', adding({ ...operation('sliding', 9000, {}), answeredAt: 9400 })],
  [
    'answered too late',
    'acquire',
    adding({ ...operation('rate', 100, { ...turn, timeoutMs: 1000 }), answeredAt: 1500 }),
  ],
  ['never answered', 'a decision', adding({ ...operation('sliding', 100, {}), answeredAt: undefined })],
  [
    'overtaken',
    'a later turn',
    adding(
      { ...operation('rate', 100, turn), answeredAt: 9000 },
      { ...operation('rate', 3000, turn), answeredAt: 4000 },
    ),
  ],
  [
    'overtaken',
    'a waiter that is never served',
    adding(
      { ...operation('permits', 100, hold), answeredAt: undefined },
      operation('permits', 3000, { ...hold, token: 9001 }),
    ),
  ],
  [
    'over the permits',
    'four at once',
    adding(...Array.from({ length: 4 }, (_, i) => operation('permits', 100 + i, { ...hold, token: 9001 + i }))),
  ],
  [
    'over the permits',
    'two of two permits each',
    adding(
      ...Array.from({ length: 2 }, (_, i) => operation('permits', 100 + i, { ...hold, permits: 2, token: 9001 + i })),
    ),
  ],
  [
    'a token twice',
    'to two holders',
    adding(operation('permits', 100, { ...hold, token: 9001 }), operation('permits', 200, { ...hold, token: 9001 })),
  ],
  [
    'a token that is lower',
    'of a later holder',
    adding(operation('permits', 100, { ...hold, token: 9002 }), operation('permits', 200, { ...hold, token: 9001 })),
  ],
  ['a lost message', 'never delivered', adding(operation('queue', 100, { op: 'send' }))],
  [
    'a lost message',
    'due long before the server lost everything',
    history =>
      withFaults(adding(operation('queue', 100, { op: 'send' }))(history), {
        what: 'lost',
        from: 19_000,
        until: 19_100,
      }),
  ],
  ['a message that nobody sent', 'delivered', adding(operation('queue', 100, { op: 'handle', attempt: 1 }))],
  [
    'a message too early',
    'half of its delay',
    adding(
      operation('queue', 100, { op: 'send', delayMs: 1000 }),
      operation('queue', 600, { op: 'handle', attempt: 1 }),
    ),
  ],
  [
    'delivered after its acknowledgement',
    'again',
    adding(
      operation('queue', 100, { op: 'send' }),
      operation('queue', 200, { op: 'handle', attempt: 1 }),
      operation('queue', 210, { op: 'acknowledge' }),
      operation('queue', 400, { op: 'handle', attempt: 2 }),
    ),
  ],
  [
    'two handlers at once',
    'of one delivery',
    adding(
      operation('queue', 100, { op: 'send' }),
      { ...operation('queue', 200, { op: 'handle', attempt: 1 }), answeredAt: 600 },
      operation('queue', 400, { op: 'handle', attempt: 2 }),
    ),
  ],
  [
    'attempts not counted',
    'the first twice',
    adding(
      operation('queue', 100, { op: 'send' }),
      ...grants('queue', 2, 100, { op: 'handle', attempt: 1 }).map(one => later(one, 2000)),
    ),
  ],
  [
    'a message too late',
    'four seconds after it was due',
    adding(
      operation('queue', 100, { op: 'send', delayMs: 1000 }),
      operation('queue', 5100, { op: 'handle', attempt: 1 }),
    ),
  ],
  ['not all is back', 'a permit', finding('permits', { free: 2 })],
  ['not all is back', 'a unit of a shared rate', finding('rate', { free: 9 })],
  ['not all is back', 'a unit of a sliding window', finding('sliding', { free: 9 })],
  ['not all is back', 'a unit of a bucket', finding('bucket', { free: 19 })],
  ['not all is back', 'units of both limits', finding('both', { free: 4 })],
  ['not all is back', 'somebody stands in the line', finding('permits', { free: 3, waiting: 1 })],
  ['not all is back', 'a message is held', finding('queue', { messages: 1 })],
  ['not all is back', 'nobody can tell', finding('rate', { error: 'SPILLWAY_STORE' })],
  [
    'not all is back',
    'what was granted to one who had given up',
    history => {
      const refused = { ...operation('permits', 100, { ...hold, granted: false }), answeredAt: 600 }
      return finding('permits', { askedAt: 700, answeredAt: 701, free: 2 })(adding(refused)(history))
    },
  ],
  [
    'a waiter is stuck',
    'for 25 seconds',
    adding({ ...operation('rate', 100, { ...turn, allowed: false, timeoutMs: 25_000 }), answeredAt: 25_100 }),
  ],
  ['a key is left', 'without a lifetime', history => ({ ...history, leftKeys: ['spillway:{1}:k'] })],
]

function later(one: Operation, ms: number): Operation {
  return { ...one, askedAt: one.askedAt + ms, answeredAt: (one.answeredAt ?? one.askedAt) + ms }
}

describe('the checker', () => {
  test('finds nothing in histories of servers that keep every promise', () => {
    for (let seed = 0; seed < 10; seed++) {
      expect([seed, check(honest(`honest ${seed}`)).map(textOf)]).toEqual([seed, []])
    }
  })

  test.each(PLANTED)('finds %s: %s', (rule, _, plant) => {
    const found = check(plant(honest('planted')))
    expect([...new Set(found.map(violation => violation.rule))]).toEqual([rule])
    expect(textOf(found[0])).toContain(rule)
  })

  test('knows that Redis may have charged what the failure policy decided, up to 50 ms after the deadline', () => {
    const alone = ['fallback', 'open', 'closed'] as const
    const charged = alone.map((source, i) => ({
      ...operation('sliding', 100, { cost: 3, allowed: i > 0, source }),
      answeredAt: 150,
    }))
    const refused = operation('sliding', 1190, { ...refusal, cost: 2, retryAfterMs: 10 })
    const hang = { what: 'hang', from: 90, until: 200 } as const
    expect(check(withFaults(adding(...charged, refused)(honest('charged')), hang)).map(textOf)).toEqual([])
  })

  test('knows that what the failure policy decided may have begun a window', () => {
    const charged = { ...operation('fixed', 100, { source: 'fallback' }), answeredAt: 150 }
    const before = grants('fixed', 8, 20).map(one => later(one, 600))
    const after = grants('fixed', 10, 20).map(one => later(one, 1010))
    const hang = { what: 'hang', from: 90, until: 160 } as const
    const history = honest('begun')
    expect(check(withFaults(adding(charged, ...before, ...after)(history), hang)).map(textOf)).toEqual([])
    expect(check(adding(...before, ...after)(history)).map(({ rule }) => rule)).toEqual(['over the limit'])
  })

  test('knows that a call which waited through a fault may be granted after it, begin a window, and be given back', () => {
    const waited = { ...operation('fixed', 100, { ...turn, source: 'fallback' }), answeredAt: 150 }
    const before = grants('fixed', 8, 20).map(one => later(one, 1200))
    const after = grants('fixed', 10, 20).map(one => later(one, 1600))
    const hang = { what: 'hang', from: 90, until: 600 } as const
    const history = adding(waited, ...before, ...after)(honest('in line'))
    expect(check(withFaults(history, hang)).map(textOf)).toEqual([])
    expect(check(adding(...before, ...after)(honest('in line'))).map(({ rule }) => rule)).toEqual(['over the limit'])
  })

  test('knows that a process which stands still again may not hear the store again', () => {
    const alone = [0, 80, 170, 1010].map(ms => operation('sliding', 100 + ms, { source: 'fallback' }))
    const found = (fault: Omit<Fault, 'what'>) =>
      check(withFaults(adding(...alone)(honest('still')), { what: 'stopped', ...fault })).map(({ rule }) => rule)
    expect(found({ from: 400, until: 1080, process: 'p1' })).toEqual([])
    expect(found({ from: 400, until: 1080, process: 'p2' })).toEqual(['the store does not decide'])
  })

  test('allows what a fault may cost, and counts it', () => {
    for (const what of ['lost', 'failover', 'moved', 'clock'] as const) {
      const excused = new Map<string, number>()
      const history = adding(...grants('sliding', 20, 20))(honest('excused'))
      expect(check(withFaults(history, { what, from: 285, until: 295 }), excused).map(textOf)).toEqual([])
      expect([what, excused.get('sliding')]).toEqual([what, 10])
    }
  })

  test('knows that a bucket which stood still while its clock was behind is emptier for seconds', () => {
    const spent = Array.from({ length: 95 }, (_, i) => operation('bucket', 100_300 + 100 * i, {}))
    const refused = operation('bucket', 109_790, refusal)
    const clock = { what: 'clock', from: 99_000, until: 100_200 } as const
    const history = adding(...spent, refused)(honest('clock'))
    expect(check(withFaults(history, clock)).map(({ rule }) => rule)).toEqual([])
    expect(check(history).map(({ rule }) => rule)).toEqual(['refused in vain'])
  })

  test('knows that what was spent before the clock was set counts from when the key is opened next', () => {
    const spent = operation('sliding', 100_000, { cost: 10 })
    const [first, second, third] = [108_000, 108_900, 109_100].map(at => operation('sliding', at, refusal))
    const clock = { what: 'clock', from: 104_000, until: 104_100 } as const
    const rules = (...refused: Operation[]) => {
      const history = adding(spent, ...refused)(honest('set'))
      return [withFaults(history, clock), history].map(one => check(one).map(({ rule }) => rule))
    }
    expect(rules(first)).toEqual([[], ['refused in vain']])
    expect(rules(first, second)[0]).toEqual([])
    const late = { ...third, askedAt: 112_000, answeredAt: 112_002 }
    expect(rules(first, second, late)[0]).toEqual(['refused in vain', 'refused longer than said'])
  })

  test('knows that a process counts what it remembers from when it heard of it', () => {
    const told = { ...refusal, retryAfterMs: 300 }
    const again = (at: number, source: Decided['source'], process = 'p1') => {
      const planted = [operation('sliding', 200, told), { ...operation('sliding', at, { ...told, source }), process }]
      return check(adding(...grants('sliding', 10, 1), ...planted)(honest('heard'))).map(({ rule }) => rule)
    }
    expect(again(540, 'memory')).toEqual([])
    expect(again(560, 'memory', 'p2')).toEqual([])
    expect(again(560, 'memory')).toEqual(['refused longer than said'])
    expect(again(540, 'store')).toEqual(['refused longer than said'])
  })

  test('sees overtaking as soon as messages cannot be the reason', () => {
    const [first, second] = [operation('rate', 1000, turn), operation('rate', 1500, turn)]
    const history = adding({ ...first, answeredAt: 2900 }, { ...second, answeredAt: 2000 })(honest('overtaken'))
    expect(check(history).map(textOf)).toEqual([])
    expect(check({ ...history, behindMs: 100 }).map(({ rule }) => rule)).toEqual(['overtaken'])
    const cut = { what: 'cut', from: 100, until: 200 } as const
    expect(check({ ...withFaults(history, cut), behindMs: 100 }).map(textOf)).toEqual([])
  })

  test('knows that a clock that is set moves a fixed window', () => {
    const begun = operation('fixed', 100_000, {})
    const opened = operation('fixed', 102_000, { ...refusal, cost: 10 })
    const [before, after] = [grants('fixed', 9, 20), grants('fixed', 9, 20)]
    const spent = [...before.map(one => later(one, 102_500)), ...after.map(one => later(one, 103_000))]
    const clock = { what: 'clock', from: 100_500, until: 100_600 } as const
    const history = adding(begun, opened, ...spent)(honest('window'))
    expect(check(withFaults(history, clock)).map(textOf)).toEqual([])
    expect(new Set(check(history).map(({ rule }) => rule))).toEqual(new Set(['over the limit', 'refused in vain']))
  })

  test('knows that a change that failed may be carried out', () => {
    const block = operation('sliding', 100_000, { op: 'block', blockMs: 3000 })
    const shorter = operation('sliding', 101_500, { op: 'block', blockMs: 50, error: 'SPILLWAY_STORE' })
    const refused = { ...operation('sliding', 101_510, { ...refusal, retryAfterMs: 1480 }), answeredAt: 101_530 }
    const granted = operation('sliding', 101_650, {})
    expect(check(adding(block, shorter, refused, granted)(honest('failed'))).map(textOf)).toEqual([])
    const rules = check(adding(block, refused, granted)(honest('failed'))).map(({ rule }) => rule)
    expect(rules.sort()).toEqual(['granted sooner than said', 'granted while blocked'])
  })

  test('knows that over HTTP a decision that was asked before the first answer may count late', () => {
    const asked = operation('sliding', 100_000, { process: 'p9', cost: 5, source: 'fallback' })
    const refused = operation('sliding', 102_000, { ...refusal, remaining: 5, cost: 6 })
    const history = adding(asked, refused)(honest('over HTTP'))
    const rules = (some: History) => check(some).map(({ rule }) => rule)
    expect(rules({ ...history, repeating: ['p9'] })).toEqual([])
    expect(rules(history)).toEqual(['refused in vain'])
    const heard = operation('sliding', 90_000, { process: 'p9' })
    expect(rules({ ...adding(heard)(history), repeating: ['p9'] })).toEqual(['refused in vain'])
  })

  test('knows that a message may be taken long before its handler begins', () => {
    const sent = operation('queue', 100, { op: 'send' })
    const first = { ...operation('queue', 500, { op: 'handle', attempt: 1 }), answeredAt: 800 }
    const history = adding(sent, first, operation('queue', 600, { op: 'handle', attempt: 2 }))(honest('taken'))
    const rules = (...faults: Fault[]) => check(withFaults(history, ...faults)).map(({ rule }) => rule)
    expect(rules({ what: 'clock', from: 300, until: 310 })).toEqual([])
    expect(rules({ what: 'stopped', from: 200, until: 500, process: 'p1' })).toEqual([])
    expect(rules({ what: 'stopped', from: 200, until: 500, process: 'p2' })).toEqual(['two handlers at once'])
  })

  test('knows that what a server has lost may be given back', () => {
    const late = {
      ...operation('bucket', 100_000, { ...turn, source: 'fallback', timeoutMs: 500 }),
      answeredAt: 100_050,
    }
    const after = grants('bucket', 21, 0.5, turn).map(one => later(one, 100_120))
    const faults = (lostAt: number): Fault[] => [
      { what: 'hang', from: 100_000, until: 100_200, process: 'p1' },
      { what: 'lost', from: lostAt, until: lostAt + 1 },
    ]
    const rules = (lostAt: number) => {
      return check(withFaults(adding(late, ...after)(honest('lost')), ...faults(lostAt))).map(({ rule }) => rule)
    }
    expect(rules(100_100)).toEqual([])
    expect(rules(99_900)).toEqual(['over the limit'])
  })

  test('knows that a bucket gives back what was settled of a decision that was lost', () => {
    for (const [subject, found] of [
      ['bucket', []],
      ['fixed', ['over the limit']],
    ] as const) {
      const spent = operation(subject, 100_000, {})
      const settled = operation(subject, 100_307, { op: 'settle', of: spent.id, units: 0 })
      const after = grants(subject, 21, 0.5).map(one => later(one, 100_205))
      const history = adding(spent, settled, ...after)(honest('settled late'))
      const rules = (lostAt: number) => {
        return check(withFaults(history, { what: 'lost', from: lostAt, until: lostAt + 1 })).map(({ rule }) => rule)
      }
      expect([subject, rules(100_100)]).toEqual([subject, found])
      expect([subject, rules(99_900)]).toEqual([subject, ['over the limit']])
    }
  })

  test('knows that what was leased before a loss is spent after it', () => {
    const leased: Subject = { ...(SUBJECTS[0] as Subject), name: 'leased', leased: true }
    const of = (history: History) => ({ ...history, subjects: [...history.subjects, leased] })
    const spent = operation('leased', 100_000, { source: 'lease' })
    const told = operation('leased', 100_100, { remaining: 9 })
    const history = of(adding(spent, told)(honest('leased')))
    expect(check(withFaults(history, { what: 'lost', from: 99_800, until: 99_801 })).map(textOf)).toEqual([])
    expect(check(history).map(({ rule }) => rule)).toEqual(['remaining too high'])
  })

  test('knows that a clock that is set back moves deadlines', () => {
    const late = { ...operation('sliding', 100_000, { cost: 10, source: 'fallback' }), answeredAt: 100_050 }
    const refused = operation('sliding', 103_500, refusal)
    const hang = { what: 'hang', from: 100_000, until: 103_000 } as const
    const rules = (...faults: Fault[]) => {
      return check(withFaults(adding(late, refused)(honest('back')), hang, ...faults)).map(({ rule }) => rule)
    }
    expect(rules({ what: 'clock', from: 101_000, until: 101_100 })).not.toContain('refused in vain')
    expect(rules()).toContain('refused in vain')
  })

  test('knows that a token may be given before a loss and heard of after it', () => {
    const [first, second] = [100, 300].map(at => operation('permits', at, { ...hold, token: 7 }))
    const released = [first, second].map(({ id }, i) => operation('permits', 600 + i, { op: 'release', of: id }))
    const history = adding({ ...first, answeredAt: 500 }, second, ...released)(honest('token'))
    const lost = { what: 'lost', from: 200, until: 201 } as const
    expect(check(withFaults(history, lost)).map(({ rule }) => rule)).not.toContain('a token twice')
    expect(check(history).map(({ rule }) => rule)).toContain('a token twice')
  })

  test('knows that a block lasts whole ms', () => {
    const block = operation('sliding', 100_000.2, { op: 'block', blockMs: 2000 })
    const rules = (until: number) => {
      const granted = { ...operation('sliding', until - 0.1, {}), answeredAt: until }
      return check(adding(block, granted)(honest('whole'))).map(({ rule }) => rule)
    }
    expect(rules(101_999.9)).toEqual([])
    expect(rules(101_999)).toEqual(['granted while blocked'])
  })

  test('knows that a bucket drains by whole ms', () => {
    const full = operation('bucket', 100_000, { cost: 20 })
    const refusedAt = (at: number) => check(adding(full, operation('bucket', at, refusal))(honest('whole')))
    expect(refusedAt(100_102.5).map(({ rule }) => rule)).toEqual([])
    expect(refusedAt(100_103.5).map(({ rule }) => rule)).toEqual(['refused in vain'])
  })

  test('knows that permits may be lost before their holder hears of them', () => {
    const [first, second] = [100, 400].map(at => operation('permits', at, { ...hold, permits: 3 }))
    const released = [first, second].map(({ id }, i) => operation('permits', 600 + i, { op: 'release', of: id }))
    const history = adding({ ...first, answeredAt: 500 }, second, ...released)(honest('late'))
    expect(check(withFaults(history, { what: 'lost', from: 200, until: 201 })).map(textOf)).toEqual([])
    expect(check(history).map(({ rule }) => rule)).toEqual(['over the permits'])
  })

  test('knows who may have what is missing: a holder, one that died, one that has just given up', () => {
    const at = (askedAt: number, free: number) => finding('permits', { askedAt, answeredAt: askedAt + 1, free })
    const held = operation('permits', 100, { ...hold, permits: 2 })
    const released = operation('permits', 900, { op: 'release', of: held.id, permits: 2 })
    const refused = { ...operation('permits', 100, { ...hold, granted: false }), answeredAt: 600 }
    const dead = { ...operation('permits', 100, hold), answeredAt: undefined, process: 'p9' }
    const killed = { what: 'killed', from: 500, until: 500, process: 'p9' } as const
    const cut = { what: 'cut', from: 400, until: 450 } as const
    const rules = (history: History) => check(history).map(({ rule }) => rule)
    const planted = (look: (history: History) => History, operations: Operation[], ...faults: Fault[]) => {
      return rules(withFaults(look(adding(...operations)(honest('missing'))), ...faults))
    }
    expect(planted(at(500, 1), [held, released])).toEqual([])
    expect(planted(at(1000, 1), [held, released])).toEqual(['not all is back'])
    expect(planted(at(630, 2), [refused])).toEqual([])
    expect(planted(at(700, 2), [refused], cut)).toEqual([])
    expect(planted(at(4000, 2), [refused], cut)).toEqual(['not all is back'])
    expect(planted(at(2400, 2), [dead], killed)).not.toContain('not all is back')
    expect(planted(at(2600, 2), [dead], killed)).toContain('not all is back')
  })

  test('knows who could not tell that it waits no longer: one whose process died, or ended without a connection', () => {
    const look = (askedAt: number, found: Partial<Look>) => {
      return finding('permits', { askedAt, answeredAt: askedAt + 1, ...found })
    }
    const refused = { ...operation('permits', 100, { ...hold, granted: false }), answeredAt: 480, process: 'p9' }
    const killed: Fault = { what: 'killed', from: 500, until: 500, process: 'p9' }
    const cut: Fault = { what: 'cut', from: 400, until: 450 }
    const closed = (endedAt: number) => [{ process: 'p9', endedAt }]
    const rules = (seen: (history: History) => History, faults: Fault[], unheard: History['unheard'] = []) => {
      const history = { ...withFaults(seen(adding(refused)(honest('untold'))), ...faults), unheard }
      return check(history).map(({ rule }) => rule)
    }
    const waits = look(600, { free: 3, waiting: 1 })
    expect(rules(waits, [killed])).toEqual([])
    expect(rules(waits, [cut], closed(500))).toEqual([])
    expect(rules(waits, [cut])).toEqual(['not all is back'])
    expect(rules(waits, [], closed(560))).toEqual(['not all is back'])
    expect(rules(look(3500, { free: 3, waiting: 1 }), [cut], closed(3400))).toEqual(['not all is back'])
    expect(rules(look(7600, { free: 3, waiting: 1 }), [cut], closed(500))).toEqual(['not all is back'])
    // Nor that it does not want what it was granted.
    expect(rules(look(3100, { free: 2 }), [cut], closed(1200))).toEqual([])
    expect(rules(look(3300, { free: 2 }), [cut], closed(1200))).toEqual(['not all is back'])
    expect(rules(look(3100, { free: 2 }), [cut])).toEqual(['not all is back'])
  })

  test('knows how long units count, that the failure policy lets in who is counted, and what a clock that is set moves', () => {
    const at = (askedAt: number, free: number) => finding('sliding', { askedAt, answeredAt: askedAt + 1, free })
    const rules = (look: (history: History) => History, one: Operation, ...faults: Fault[]) => {
      return check(withFaults(look(adding(one)(honest('counted'))), ...faults)).map(({ rule }) => rule)
    }
    const spent = operation('sliding', 100, {})
    expect(rules(at(1000, 9), spent)).toEqual([])
    expect(rules(at(1200, 9), spent)).toEqual(['not all is back'])
    expect(rules(at(1200, 9), spent, { what: 'clock', from: 500, until: 600 })).toEqual([])
    const alone = operation('sliding', 100, { ...turn, source: 'fallback', timeoutMs: 100 })
    expect(rules(at(1000, 9), alone)).toEqual([])
    const block = operation('sliding', 100, { op: 'block', blockMs: 2000 })
    expect(rules(at(1200, 0), block)).toEqual([])
  })

  test('knows that what was settled is back while its window lasts, but after a refund', () => {
    const spent = operation('sliding', 100, {})
    const settled = operation('sliding', 900, { op: 'settle', of: spent.id, units: 0 })
    const failed = { ...settled, error: 'SPILLWAY_STORE' }
    const refund = operation('sliding', 500, { op: 'refund', units: 1 })
    const look = finding('sliding', { askedAt: 1000, answeredAt: 1001, free: 9 })
    const rules = (...operations: Operation[]) => check(look(adding(...operations)(honest('settled'))))
    expect(rules(spent, settled).map(({ rule }) => rule)).toEqual(['not all is back'])
    expect(rules(spent).map(textOf)).toEqual([])
    expect(rules(spent, failed).map(textOf)).toEqual([])
    expect(rules(spent, refund, settled).map(textOf)).toEqual([])
  })

  test('allows two servers at once while a replica takes over', () => {
    const history = adding(...grants('leaky', 25, 40))(honest('two servers'))
    expect(check(withFaults(history, { what: 'failover', from: 90, until: 1200 })).map(textOf)).toEqual([])
  })

  test('has at least 25 kinds of violations planted, one for each of its rules', () => {
    expect(PLANTED.length).toBeGreaterThanOrEqual(25)
    const subjects: readonly Subject[] = SUBJECTS
    expect(new Set(subjects.map(({ kind }) => kind)).size).toBe(4)
  })
})

/** One process through one fault, in which everything is kept: each decision is about a key of its own. */
const bounded = (
  change: Partial<Bounds> = {},
  planted: readonly Operation[] = [],
  fault: Partial<Fault> = {},
): History => {
  const limits = [{ algorithm: 'sliding-window', quota: 10, windowMs: 3_600_000, burst: 10 }] as const
  const load: Subject = { name: 'load', kind: 'limiter', limits, deadlineMs: 50, localShare: 0.3 }
  const decided = (count: number, from: number, everyMs: number, facts: Facts) =>
    Array.from({ length: count }, (_, i) => operation('load', from + i * everyMs, { key: `${from} ${i}`, ...facts }))
  const alone = decided(100, 1006, 19, { source: 'fallback' }).map(one => ({ ...one, answeredAt: one.askedAt + 50 }))
  return {
    subjects: [load],
    operations: [...decided(100, 0, 10, {}), ...alone, ...decided(150, 3500, 5, {}), ...planted],
    faults: [{ what: 'hang', from: 1000, mendedAt: 3000, until: 3100, ...fault }],
    leftKeys: [],
    knownKeys: ['spillway:{3500 1}:load'],
    endedAt: 10_000,
    bounds: { subject: 'load', lives: 1, alone: true, backMs: 1000, ...change },
  }
}

const BROKEN: ReadonlyArray<[rule: string, kind: string, history: History]> = [
  [
    'more than the fault allows',
    'a quota for each of two lives, of which there was one',
    bounded(
      {},
      grants('load', 20, 5).map(one => later(one, 2950)),
      { what: 'lost' },
    ),
  ],
  ['more than the fault allows', 'a share, of a fault that nobody notices', bounded({ alone: false })],
  ['decided too late', 'with its deadline and 50 ms', bounded({}, [operation('load', 1500, { answeredAt: 1601 })])],
  ['not back in time', 'in half a second', bounded({ backMs: 400 })],
  [
    'less than the limit allows',
    'after a slot was moved',
    bounded({}, grants('load', 9, 5).concat(operation('load', 200, refusal)), { what: 'moved', from: 150 }),
  ],
  [
    'carried out too late',
    'what was asked for while the server stood still',
    { ...bounded(), knownKeys: ['spillway:{1006 2}:load'] },
  ],
]

test('knows that a waiter that gave up in an outage may have been charged, by the failure policy of its process', () => {
  const gone = { ...operation('load', 1100, { ...turn, allowed: false, timeoutMs: 300 }), answeredAt: 1400 }
  const rules = (free: number, faults = bounded().faults) => {
    const look = finding('load', { askedAt: 9000, answeredAt: 9001, free })
    return check(look({ ...bounded(), operations: [gone], faults, bounds: undefined })).map(({ rule }) => rule)
  }
  expect(rules(9)).toEqual([])
  expect(rules(8)).toEqual(['not all is back'])
  expect(rules(9, [])).toEqual(['not all is back'])
})

describe('the bounds of a fault', () => {
  test('are kept by who keeps them', () => {
    expect(check(bounded()).map(textOf)).toEqual([])
    const twice = grants('load', 20, 5).map(one => later(one, 2950))
    expect(check(bounded({ lives: 2 }, twice, { what: 'lost' })).map(textOf)).toEqual([])
    const starved = operation('load', 1500, { answeredAt: 1601, starvedMs: 30 })
    expect(check(bounded({}, [starved])).map(textOf)).toEqual([])
  })

  test.each(BROKEN)('finds %s: %s', (rule, _, history) => {
    expect([...new Set(check(history).map(violation => violation.rule))]).toEqual([rule])
  })

  test('what was carried out while others were answered was not late', () => {
    const answered = operation('load', 1500, { key: 'other' })
    expect(check({ ...bounded({}, [answered]), knownKeys: ['spillway:{1006 2}:load'] }).map(textOf)).toEqual([])
  })
})
