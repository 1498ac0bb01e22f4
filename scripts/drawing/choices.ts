import { type Tree, treePicture } from './tree.js'

const PART: Tree = {
  lines: ['What happens to work', 'that is over the limit?'],
  answers: [
    [
      'it is refused',
      {
        lines: ['What is limited?'],
        answers: [
          ['how many in a time', { lines: ['rateLimit, RateLimiter.consume', 'status 429, and when to come back'] }],
          ['how many at once', { lines: ['concurrencyLimit, Semaphore', 'status 429 or 503, or tryAcquire'] }],
        ],
      },
    ],
    [
      'its caller waits',
      {
        lines: ['What is limited?'],
        answers: [
          ['how many in a time', { lines: ['SharedRateLimiter', 'or RateLimiter.acquire, by key'] }],
          ['how many at once', { lines: ['Semaphore', 'permits as leases, with a token'] }],
        ],
      },
    ],
    [
      'it is done later',
      {
        lines: ['Where does it', 'come from?'],
        answers: [
          ['an HTTP request', { lines: ['rateLimit({ defer })', 'status 202 and an id'] }],
          ['your own code', { lines: ['DelayQueue', 'stored in Redis, at least once'] }],
        ],
      },
    ],
  ],
}

const ALGORITHM: Tree = {
  lines: ['What do you promise?'],
  answers: [
    ['never more than the quota in any span; or not sure yet', { lines: ['sliding-window', 'the default; exact'] }],
    ['an average; a bounded burst does no harm', { lines: ['token-bucket', 'constant state; set burst'] }],
    ['calls leave evenly, and a request may wait', { lines: ['leaky-bucket', 'tells each request its delay'] }],
    ['a budget that renews as a whole', { lines: ['fixed-window', 'cheapest; 2 × quota − 1 at a border'] }],
    ['roughly a sliding window, with constant state', { lines: ['sliding-counter', 'an estimate'] }],
  ],
}

/** Which part of the package fits, and which algorithm. */
export function choices(): Array<readonly [name: string, svg: string]> {
  return [
    [
      'choosing-part.svg',
      treePicture('Which part?', PART, [
        { x: 24, width: 158 },
        { x: 312, width: 128 },
        { x: 598, width: 238 },
      ]),
    ],
    [
      'choosing-algorithm.svg',
      treePicture('Which algorithm?', ALGORITHM, [
        { x: 24, width: 158 },
        { x: 560, width: 238 },
      ]),
    ],
  ]
}
