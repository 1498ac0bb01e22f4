import { DROPS_AT, drops, LONGEST_MS, RETURNS_AT } from '../../bench/adaptive/overload.js'
import type { Second } from '../../bench/adaptive/simulation.js'
import { Scale, WIDTH } from './marks.js'
import { page } from './page.js'
import { element, line, shown, text } from './svg.js'

const SECONDS = 60
const SCALE = new Scale(96, 740, SECONDS * 1000)
const LABELS = SCALE.left - 10
const HEIGHT = 160
/** How each contender is drawn, in the order in which they are told. */
const CLASSES = ['left', 'rule dashed', 'denied'] as const

/** One number of every second, on a logarithmic scale. */
interface Chart {
  readonly title: string
  readonly top: number
  readonly low: number
  readonly high: number
  readonly ticks: ReadonlyArray<readonly [value: number, label: string]>
  readonly of: (second: Second) => number
}

const TIMES: Chart = {
  title: 'p99 of the requests that end in a second',
  top: 84,
  low: 10,
  high: 100_000,
  ticks: [
    [10, '10 ms'],
    [100, '100 ms'],
    [1000, '1 s'],
    [10_000, '10 s'],
    [100_000, '100 s'],
  ],
  of: ({ p99 }) => p99,
}

const LIMITS: Chart = {
  title: 'the limit',
  top: 308,
  low: 10,
  high: 1000,
  ticks: [
    [10, '10'],
    [100, '100'],
    [1000, '1000'],
  ],
  of: ({ limit }) => limit,
}

/** What becomes of times and limits under overload, when the capacity drops and returns. */
export function overload(): string {
  const all = [...drops()]
  const bottom = LIMITS.top + HEIGHT
  return page(
    WIDTH,
    bottom + 44,
    'Adaptive permits when a service is offered three times its capacity, which drops to a third at 20 s and ' +
      'returns at 40 s',
    all.map(([name, seconds]) => `${name}: p99 ${Math.round(seconds[SECONDS - 1].p99)} ms at the end`).join('; '),
    text(24, 30, 'Three times what the service can do', { class: 'name ink' }),
    text(24, 50, `Its capacity drops to a third from ${DROPS_AT} to ${RETURNS_AT} s. Unloaded, a request takes 20 ms.`),
    ...[DROPS_AT, RETURNS_AT].map(at =>
      line(SCALE.x(at * 1000), TIMES.top, SCALE.x(at * 1000), bottom, { class: 'rule dashed' }),
    ),
    ...chart(TIMES, all),
    line(SCALE.left, y(TIMES, LONGEST_MS), SCALE.right, y(TIMES, LONGEST_MS), { class: 'rule dashed' }),
    text(SCALE.left + 6, y(TIMES, LONGEST_MS) - 4, '3 × unloaded', { class: 'small' }),
    ...chart(
      LIMITS,
      all.filter(([, seconds]) => Number.isFinite(seconds[0].limit)),
    ),
    ...[0, 10, 20, 30, 40, 50, 60].map(at =>
      text(SCALE.x(at * 1000), bottom + 22, `${at} s`, { class: 'small middle' }),
    ),
  )
}

function chart(shape: Chart, all: ReadonlyArray<readonly [string, Second[]]>): string[] {
  const ends = spaced(all.map(([, seconds]) => y(shape, shape.of(seconds[SECONDS - 1]))))
  return [
    text(SCALE.left, shape.top - 12, shape.title, { class: 'ink bold' }),
    ...shape.ticks.flatMap(([value, label]) => [
      line(SCALE.left, y(shape, value), SCALE.right, y(shape, value), { class: 'grid' }),
      text(LABELS, y(shape, value) + 4, label, { class: 'small end' }),
    ]),
    ...all.map(([, seconds], i) => {
      const points = seconds.map(
        (second, at) => `${shown(SCALE.x((at + 1) * 1000))} ${shown(y(shape, shape.of(second)))}`,
      )
      return element('path', { class: `curve ${CLASSES[i]}`, d: `M${points.join('L')}` })
    }),
    ...all.map(([name], i) => text(SCALE.right + 8, ends[i] + 4, name, { class: `${CLASSES[i].split(' ')[0]}-text` })),
  ]
}

function y({ top, low, high }: Chart, value: number): number {
  const share = Math.log(Math.max(low, Math.min(high, value)) / low) / Math.log(high / low)
  return top + HEIGHT * (1 - share)
}

/** Places for labels, in the given order, so far from each other that all can be read. */
function spaced(places: readonly number[]): number[] {
  const order = places.map((place, i) => ({ place, i })).sort((a, b) => b.place - a.place)
  const free: number[] = []
  let last = Number.POSITIVE_INFINITY
  for (const { place, i } of order) {
    last = Math.min(place, last - 15)
    free[i] = last
  }
  return free
}
