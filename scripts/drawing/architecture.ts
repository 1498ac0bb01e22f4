import { FLOORS } from '../../test/check/floors.js'
import { page } from './page.js'
import { element, line, text } from './svg.js'

/** One stop of a request: the room of src/ (or Redis), what is done there. */
interface Stop {
  readonly room: string
  readonly words: string
}

/** The way of one request, in order. `lua/` stands for the script that runs inside Redis. */
const STOPS: readonly Stop[] = [
  { room: 'adapters/', words: 'gives request and response to the guard' },
  { room: 'http/', words: 'address lists, skip, key, policy, cost' },
  { room: 'limiter/', words: 'deny cache; breaker; the deadline starts' },
  { room: 'stores/', words: 'one batch per turn of the event loop' },
  { room: 'redis/', words: 'one EVALSHA, with its last moment to act' },
  { room: 'lua/', words: 'measures every limit, then spends all or none' },
  { room: 'stores/', words: 'reads the numbers into verdicts' },
  { room: 'limiter/', words: 'decision; or the failure policy decides' },
  { room: 'http/', words: 'header fields; passes on, waits or refuses' },
]

const WIDTH = 860
const LEFT = 44
const RIGHT = 500
const TOP = 58
const STOREY = 52
const ROOM_HEIGHT = 38
const LEGEND = 526
const REDIS = 'Redis (lua/)'

/** The house: floors as test/check/floors.ts has them, and the numbered way of one request through its rooms. */
export function architecture(): string {
  const storeys = storeysFromTheTop()
  const bottom = TOP + STOREY * storeys.length
  const outside = bottom + 10
  return page(
    WIDTH,
    outside + ROOM_HEIGHT + 24,
    'The rooms of src/, floor by floor, and the way of one request',
    STOPS.map(({ room, words }, i) => `${i + 1}: ${room} ${words}`).join('; '),
    text(24, 30, 'src/, floor by floor', { class: 'name ink' }),
    text(LEGEND, 30, 'The way of one request over Redis', { class: 'name ink' }),
    ...storeys.flatMap(({ floor, rooms }, i) => storey(floor, rooms, TOP + STOREY * i)),
    line(24, bottom, RIGHT, bottom, { class: 'rule dashed' }),
    ...room('lua/', REDIS, LEFT, RIGHT - LEFT, outside),
    ...legend(),
  )
}

/** Rows of one floor are one storey. The highest comes first. */
function storeysFromTheTop(): Array<{ floor: number; rooms: string[] }> {
  const floors = new Map<number, string[]>()
  for (const [floor, ...rooms] of FLOORS) floors.set(floor, [...(floors.get(floor) ?? []), ...rooms])
  return [...floors].map(([floor, rooms]) => ({ floor, rooms })).sort((a, b) => b.floor - a.floor)
}

function storey(floor: number, rooms: readonly string[], y: number): string[] {
  const gap = 8
  const width = (RIGHT - LEFT - gap * (rooms.length - 1)) / rooms.length
  return [
    text(24, y + ROOM_HEIGHT / 2 + 4, String(floor), { class: 'small' }),
    ...rooms.flatMap((name, i) => room(name, name, LEFT + i * (width + gap), width, y)),
  ]
}

function room(name: string, label: string, x: number, width: number, y: number): string[] {
  const numbers = STOPS.flatMap((stop, i) => (stop.room === name ? [i + 1] : []))
  const box = { x, y, width, height: ROOM_HEIGHT, rx: 5, class: numbers.length > 0 ? 'paper left' : 'paper' }
  const middle = y + ROOM_HEIGHT / 2
  return [
    element('rect', box),
    text(x + 10, middle + 4, label, { class: numbers.length > 0 ? 'ink' : '' }),
    ...numbers.flatMap((number, i) => badge(number, x + width - 17 - 24 * (numbers.length - 1 - i), middle)),
  ]
}

function badge(number: number, x: number, y: number): string[] {
  return [
    element('circle', { cx: x, cy: y, r: 10, class: 'paper left' }),
    text(x, y + 4, String(number), { class: 'ink middle' }),
  ]
}

function legend(): string[] {
  return STOPS.flatMap(({ room: name, words }, i) => {
    const y = TOP + 19 + 46 * i
    return [
      ...badge(i + 1, LEGEND + 10, y),
      text(LEGEND + 30, y - 2, name === 'lua/' ? REDIS : name, { class: 'ink' }),
      text(LEGEND + 30, y + 14, words),
    ]
  })
}
