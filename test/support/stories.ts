import type { Decision } from '../../src/limiter/core/decision.js'
import type { PolicyInput } from '../../src/limiter/core/limit.js'

/**
 * At so many ms after the start `cost` is asked for; what is answered, and why. The last number is `delayMs`, 0 where
 * absent.
 */
export type Row = readonly [
  at: number,
  cost: number,
  allowed: boolean,
  remaining: number,
  retryAfterMs: Decision['retryAfterMs'],
  resetAfterMs: number,
  why: string,
  delayMs?: number,
]

/** Begins with a day, an hour, a minute and a second: the cells of a sliding counter begin with it too. */
export const START = Date.UTC(2026, 10, 21)

const NEVER = Number.POSITIVE_INFINITY

/** What each algorithm does, told once for all stores. */
export const STORIES: ReadonlyArray<readonly [policy: PolicyInput, rows: readonly Row[]]> = [
  [
    '5/10s fixed-window',
    [
      [0, 2, true, 3, 0, 10_000, 'the window starts with the first request'],
      [4000, 2, true, 1, 0, 6000, 'and ends one window later, whatever comes between'],
      [4000, 2, false, 1, 6000, 6000, 'what does not fit spends nothing'],
      [4000, 1, true, 0, 0, 6000, 'so that what fits may still be spent'],
      [9999, 1, false, 0, 1, 1, 'denied one ms before the promised moment'],
      [10_000, 5, true, 0, 0, 10_000, 'allowed at it: a new window, and all of its quota'],
      [10_000, 6, false, 0, NEVER, 10_000, 'more than the quota never fits'],
      [19_999, 0, true, 0, 0, 1, 'a cost of nothing asks how things stand'],
      [20_000, 0, true, 5, 0, 0, 'after the window the key is as if never used'],
      [27_000, 5, true, 0, 0, 10_000, 'idle time belongs to no window'],
      [17_000, 1, false, 0, 10_000, 10_000, 'the clock ran back: the window starts now, nobody waits longer than one'],
      [26_999, 1, false, 0, 1, 1, 'which was remembered though it was a refusal'],
      [27_000, 1, true, 4, 0, 10_000, 'so that the promise is kept'],
    ],
  ],
  [
    '5/10s sliding-window',
    [
      [0, 2, true, 3, 0, 10_000, 'two at the start'],
      [4000, 2, true, 1, 0, 10_000, 'as if never used one window after the newest'],
      [4000, 2, false, 1, 6000, 10_000, 'one too many: it fits when the two of the start have expired'],
      [4000, 4, false, 1, 10_000, 10_000, 'three too many: when those of now have expired as well'],
      [9999, 2, false, 1, 1, 4001, 'denied one ms before the promised moment'],
      [10_000, 2, true, 1, 0, 10_000, 'allowed at it'],
      [10_000, 1, true, 0, 0, 10_000, 'and one more in the same ms'],
      [13_999, 1, false, 0, 1, 6001, 'there is no boundary at which all comes back at once'],
      [14_000, 2, true, 0, 0, 10_000, 'only what was spent a window ago'],
      [14_000, 6, false, 0, NEVER, 10_000, 'more than the quota never fits'],
      [24_000, 0, true, 5, 0, 0, 'after a window of rest the key is as if never used'],
      [30_000, 3, true, 2, 0, 10_000, 'three'],
      [31_000, 2, true, 0, 0, 10_000, 'and two a second later'],
      [29_000, 1, false, 0, 10_000, 10_000, 'the clock ran back: all five count as spent now'],
      [38_999, 1, false, 0, 1, 1, 'which was remembered though it was a refusal'],
      [39_000, 1, true, 4, 0, 10_000, 'so that nobody waits longer than a window'],
    ],
  ],
  [
    '10/10s sliding-counter',
    [
      [0, 6, true, 4, 0, 20_000, 'counted in this cell, it weighs until the end of the next'],
      [
        5000,
        5,
        false,
        4,
        6667,
        15_000,
        'one too many: it fits when the six weigh no more than five, not at the end of the cell',
      ],
      [5000, 4, true, 0, 0, 15_000, 'what fits may still be spent'],
      [5000, 1, false, 0, 6000, 15_000, 'ten weigh nine one second into the next cell'],
      [10_999, 1, false, 0, 1, 9001, 'denied one ms before the promised moment'],
      [11_000, 1, true, 0, 0, 19_000, 'allowed at it'],
      [15_000, 4, true, 0, 0, 15_000, 'half of the ten, one and four'],
      [15_000, 11, false, 0, NEVER, 15_000, 'more than the quota never fits'],
      [29_999, 0, true, 9, 0, 1, 'the last ms in which the five weigh anything'],
      [30_000, 0, true, 10, 0, 0, 'as if never used'],
      [40_000, 8, true, 2, 0, 20_000, 'eight'],
      [50_000, 2, true, 0, 0, 20_000, 'and two as the next cell begins'],
      [49_999, 1, false, 0, 1001, 10_001, 'the clock ran back into the cell before: all ten count in it'],
      [50_999, 1, false, 0, 1, 9001, 'which was remembered though it was a refusal'],
      [51_000, 1, true, 0, 0, 19_000, 'so that the promise is kept'],
    ],
  ],
  [
    '1/1s token-bucket burst=5',
    [
      [0, 5, true, 0, 0, 5000, 'the whole burst at once'],
      [0, 1, false, 0, 1000, 5000, 'a refusal spends nothing'],
      [999, 1, false, 0, 1, 4001, 'denied one ms before the promised moment'],
      [1000, 1, true, 0, 0, 5000, 'allowed at it'],
      [3500, 1, true, 1, 0, 3500, 'half a token is kept, not lost'],
      [3500, 3, false, 1, 1500, 3500, 'one and a half are there, three are wanted'],
      [5000, 3, true, 0, 0, 5000, 'and come in a second and a half'],
      [5000, 6, false, 0, NEVER, 5000, 'more than the burst never fits'],
      [10_000, 0, true, 5, 0, 0, 'full: as if never used'],
      [60_000, 5, true, 0, 0, 5000, 'however long it rests it holds no more than the burst'],
      [30_000, 1, false, 0, 1000, 5000, 'the clock ran back: nothing is regained and nothing lost'],
      [31_000, 1, true, 0, 0, 5000, 'and from now on it fills again'],
    ],
  ],
  [
    '7/1s token-bucket',
    [
      [0, 7, true, 0, 0, 1000, 'a token takes 142.857… ms'],
      [142, 1, false, 0, 1, 858, 'so it is not there after 142'],
      [143, 1, true, 0, 0, 1000, 'but after 143, and the seventh of a ms that is left over'],
      [285, 1, false, 0, 1, 858, 'is not lost'],
      [286, 1, true, 0, 0, 1000, 'two in 285.71…'],
      [428, 1, false, 0, 1, 858, 'nor is it given early'],
      [429, 1, true, 0, 0, 1000, 'three in 428.57…'],
      [1000, 4, true, 0, 0, 1000, 'and seven in exactly a second'],
      [1000, 1, false, 0, 143, 1000, 'not eight'],
    ],
  ],
  [
    '1/1s leaky-bucket burst=3',
    [
      [0, 1, true, 2, 0, 1000, 'the first leaves at once', 0],
      [0, 1, true, 1, 0, 2000, 'the second a second after it', 1000],
      [0, 1, true, 0, 0, 3000, 'the third has the last place', 2000],
      [0, 1, false, 0, 1000, 3000, 'the fourth has none'],
      [999, 1, false, 0, 1, 2001, 'until the first place is free'],
      [1000, 1, true, 0, 0, 3000, 'and leaves as the last of three', 2000],
      [2500, 1, true, 0, 0, 2500, 'a place is half free: what enters waits for the half', 1500],
      [2500, 4, false, 0, NEVER, 2500, 'there are three places, never four'],
      [5000, 0, true, 3, 0, 0, 'all have left: as if never used', 0],
      [5000, 3, true, 0, 0, 3000, 'a cost of three leaves at once and takes three places', 0],
      [4000, 1, false, 0, 1000, 3000, 'the clock ran back: nothing drains and nothing is lost'],
      [5000, 1, true, 0, 0, 3000, 'and from now on it drains again', 2000],
    ],
  ],
  [
    '0/1s',
    [
      [0, 1, false, 0, NEVER, 0, 'a quota of 0 refuses everything'],
      [0, 0, true, 0, 0, 0, 'but a question'],
    ],
  ],
]

/** What becomes of spent units: which decision (0: the first) is settled to which cost, or what is refunded. */
type Change = { settle: number; to: number } | { refund: number } | 'reset'

/**
 * At so many ms after the start a cost is asked for, or a change is made; how many are left then, how long a refused
 * request has to wait, and why. The last number is `delayMs`.
 */
export type Step = readonly [
  at: number,
  does: number | Change,
  left: number,
  retryAfterMs: number,
  why: string,
  delayMs?: number,
]

const settle = (decision: number, to = 0): Change => ({ settle: decision, to })
const refund = (units: number): Change => ({ refund: units })

/** A settlement gives back the units of its own decision, and only as far as they still count. */
export const SETTLEMENTS: ReadonlyArray<readonly [policy: PolicyInput, title: string, steps: readonly Step[]]> = [
  [
    '10/1s',
    'its own units, not newer ones: never 15 of 10 in a window',
    [
      [0, 5, 5, 0, 'five at the start'],
      [999, 5, 0, 0, 'and five a ms before their end'],
      [999, settle(0), 5, 0, 'the first five are given back'],
      [999, 5, 0, 0, 'and spent again'],
      [1000, 5, 0, 999, 'ten of 999 ms count'],
      [1999, 5, 5, 0, 'until a window after them'],
    ],
  ],
  [
    '10/1s',
    'the newest units, if they are its own; the oldest expire as before',
    [
      [0, 5, 5, 0, 'five'],
      [500, 5, 0, 0, 'and five'],
      [500, settle(1, 1), 4, 0, 'of which four are given back'],
      [500, 5, 4, 500, 'the fifth comes when the oldest expire'],
      [1000, 9, 0, 0, 'the one of 500 ms is left'],
      [1499, 1, 0, 1, 'and expires in its time'],
    ],
  ],
  [
    '10/1s',
    'units from the middle',
    [
      [0, 2, 8, 0, 'two'],
      [100, 3, 5, 0, 'three'],
      [200, 2, 3, 0, 'two'],
      [200, settle(1), 6, 0, 'the three are given back'],
      [999, 7, 6, 1, 'four count until the first two expire'],
      [1000, 8, 0, 0, 'then two'],
    ],
  ],
  [
    '10/1s',
    'nothing of units that have expired',
    [
      [0, 5, 5, 0, 'five'],
      [999, 5, 0, 0, 'and five'],
      [1000, 1, 4, 0, 'the first have expired'],
      [1000, settle(0), 4, 0, 'and are not given back again'],
    ],
  ],
  [
    '10/1s',
    'at most the units that still count for its instant',
    [
      [0, 6, 4, 0, 'six'],
      [0, refund(4), 8, 0, 'four of them are refunded'],
      [1, 5, 3, 0, 'five of another'],
      [1, settle(0), 5, 0, 'two are left to give back'],
      [2, 5, 0, 0, 'five more'],
      [2, 'reset', 10, 0, 'all are forgotten'],
      [3, 5, 5, 0, 'and five spent'],
      [3, settle(2), 5, 0, 'which are of another instant'],
    ],
  ],
  [
    '10/1s',
    'nothing to a decision whose moment the clock shows twice',
    [
      [500, 5, 5, 0, 'five'],
      [400, 1, 4, 0, 'the clock ran back: they count as spent now'],
      [500, 4, 0, 0, 'four of the same moment'],
      [500, settle(0), 0, 0, 'which are not its own'],
    ],
  ],
  ...['fixed-window', 'sliding-counter'].map(
    algorithm =>
      [
        `10/1s ${algorithm}`,
        'nothing that others have spent since a refund or reset',
        [
          [0, 6, 4, 0, 'six'],
          [0, refund(4), 8, 0, 'four of them are refunded'],
          [1, 5, 3, 0, 'five of another'],
          [1, settle(0), 5, 0, 'two are left to give back'],
          [1, 'reset', 10, 0, 'all are forgotten'],
          [2, 6, 4, 0, 'six'],
          [3, 1, 3, 0, 'one'],
          [3, 'reset', 10, 0, 'all are forgotten'],
          [4, 5, 5, 0, 'five of another'],
          [4, settle(2), 5, 0, 'stay'],
        ],
      ] as const,
  ),
  [
    '10/1s sliding-counter',
    'in the cell of the charge',
    [
      [0, 8, 2, 0, 'eight'],
      [1500, 6, 0, 0, 'weigh four in the middle of the next cell'],
      [1500, settle(0), 4, 0, 'six of this cell, nothing of the one before'],
      [1500, 5, 4, 667, 'never more than ten at one instant'],
      [1500, 4, 0, 0, 'the four fit'],
    ],
  ],
  [
    '10/1s token-bucket',
    'at most the units that the bucket has not regained',
    [
      [0, 8, 2, 0, 'eight'],
      [500, 0, 7, 0, 'five are regained'],
      [500, 5, 2, 0, 'and spent'],
      [500, settle(0), 4, 0, 'three of the eight were not regained: they come back, but for what a ms brings'],
      [500, 6, 4, 101, 'the five that were spent since are all there'],
    ],
  ],
  ...[
    [0, 1],
    [1, 0],
  ].map(
    ([first, second]) =>
      [
        '10/1s token-bucket',
        `all units of decisions of one instant, whichever is settled first (${first})`,
        [
          [0, 5, 5, 0, 'five'],
          [0, 5, 0, 0, 'and five'],
          [0, settle(first), 5, 0, 'the one'],
          [0, settle(second), 10, 0, 'and the other'],
        ],
      ] as const,
  ),
  [
    '10/1s token-bucket',
    'the rest of its own units after other decisions',
    [
      [0, 5, 5, 0, 'five'],
      [0, 5, 0, 0, 'and five'],
      [200, 0, 2, 0, 'two are regained'],
      [200, settle(0), 7, 0, 'the first five are given back'],
      [600, 0, 10, 0, 'full'],
      [600, 9, 1, 0, 'nine'],
      [600, settle(1), 1, 0, 'all of the second were regained: the nine are the only ones that count'],
      [600, 2, 1, 100, 'never eleven'],
    ],
  ],
  [
    '10/1s leaky-bucket',
    'a place only if it is the last, so that two requests never leave together',
    [
      [0, 1, 9, 0, 'leaves at once', 0],
      [0, 1, 8, 0, 'the second', 100],
      [0, 1, 7, 0, 'the third', 200],
      [0, settle(1), 7, 0, 'the second place is taken'],
      [0, 1, 6, 0, 'the fourth leaves after the third', 300],
    ],
  ],
  [
    '10/1s leaky-bucket',
    'the last place, which the next request gets',
    [
      [0, 1, 9, 0, 'leaves at once', 0],
      [0, 1, 8, 0, 'the second', 100],
      [0, settle(1), 9, 0, 'goes'],
      [0, 1, 8, 0, 'and another has its place', 100],
    ],
  ],
]
