import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { RINGS as FROM_INSIDE } from '../../.dependency-cruiser.mjs'
import { page } from './page.js'
import { element, line, text } from './svg.js'

const SUBJECTS: Readonly<Record<string, string>> = {
  outgoing: 'calls that leave',
  operating: 'what operators need',
  replacing: 'four drop-ins',
  http: 'gates, headers, adapters',
  waiting: 'line, semaphore, rate, queue',
  redis: 'scripts, the store',
  sql: 'two databases',
  leases: 'units in advance',
  limiter: 'a limit, its arithmetic, the counts of one process, who decides',
}

/** The folders of src/ and what each is about, ring by ring from the outside. */
const RINGS: ReadonlyArray<Readonly<Record<string, string>>> = FROM_INSIDE.toReversed().map(folders =>
  Object.fromEntries(folders.toSorted(inOrder).map(folder => [folder, SUBJECTS[folder]])),
)

function inOrder(a: string, b: string): number {
  const order = Object.keys(SUBJECTS)
  return order.indexOf(a) - order.indexOf(b)
}

/** One stop of a request: the folder (lua: the script inside Redis), and what is done there. */
interface Stop {
  readonly folder: string
  readonly words: string
}

/** The way of one request over Redis, in order. */
const STOPS: readonly Stop[] = [
  { folder: 'http', words: 'an adapter passes the request to a gate' },
  { folder: 'http', words: 'address lists, skip, key, policy, cost' },
  { folder: 'limiter', words: 'known denials; breaker; the deadline starts' },
  { folder: 'redis', words: 'one batch per turn of the event loop' },
  { folder: 'redis', words: 'one EVALSHA, with its last moment to act' },
  { folder: 'lua', words: 'measures every limit, then spends all or none' },
  { folder: 'redis', words: 'reads the numbers into verdicts' },
  { folder: 'limiter', words: 'combines them; or the failure policy decides' },
  { folder: 'http', words: 'header fields; passes on, waits or refuses' },
]

const WIDTH = 860
const LEFT = 24
const RIGHT = 502
const TOP = 62
const LEGEND = 534
/** A ring's name, its folders, and the margin between its edge and what it holds. */
const NAME = 24
const BOX = 52
const MARGIN = 12
const BAND = NAME + BOX + MARGIN
const BOTTOM = TOP + BAND * RINGS.length + MARGIN * (RINGS.length - 1)
const STEP = 52

/** The house as rings, one inside the other, and the numbered way of one request through its folders. */
export function architecture(): string {
  checkFolders()
  return page(
    WIDTH,
    BOTTOM + 30 + BOX + 20,
    'The folders of src/ in rings, and the way of one request through them',
    STOPS.map(({ folder, words }, i) => `${i + 1}: ${folder}/ ${words}`).join('; '),
    text(LEFT, 30, 'src/, in rings', { class: 'name ink' }),
    text(LEFT, 48, 'A file imports from its own folder, or from a ring further in.', { class: 'small' }),
    text(LEGEND, 30, 'The way of one request over Redis', { class: 'name ink' }),
    ...RINGS.flatMap((_, i) => ring(i)),
    line(LEFT, BOTTOM + 15, RIGHT, BOTTOM + 15, { class: 'rule dashed' }),
    ...box('lua', 'lua/, inside Redis', 'the scripts, which Redis runs one at a time', LEFT, BOTTOM + 30, RIGHT - LEFT),
    ...STOPS.flatMap(legendRow),
  )
}

/** A new folder needs a place in the picture. */
function checkFolders(): void {
  const src = fileURLToPath(new URL('../../src/', import.meta.url))
  const entries = readdirSync(src, { withFileTypes: true })
  const folders = entries.filter(entry => entry.isDirectory()).map(({ name }) => name)
  const drawn = RINGS.flatMap(folder => Object.keys(folder))
  const missing = folders.filter(name => !drawn.includes(name))
  const gone = drawn.filter(name => !folders.includes(name))
  if (missing.length + gone.length === 0) return
  throw new Error(`scripts/drawing/architecture.ts: folders of src/ without a place: ${missing}; gone: ${gone}`)
}

/** One ring from its upper edge to the bottom, with those inside it still to come. */
function ring(index: number): string[] {
  const inset = MARGIN * index
  const y = TOP + BAND * index
  const [x, width] = [LEFT + inset, RIGHT - LEFT - 2 * inset]
  const frame = { x, y, width, height: BOTTOM - inset - y, rx: 10 }
  const folders = Object.entries(RINGS[index])
  const gap = 8
  const inside = width - 2 * MARGIN
  const each = (inside - gap * (folders.length - 1)) / folders.length
  return [
    // Each layer of colour lies over those of the rings around it, so that it grows stronger towards the middle.
    element('rect', { ...frame, class: 'area', style: 'opacity:.07' }),
    element('rect', { ...frame, class: 'paper', style: 'fill:none' }),
    text(x + MARGIN, y + 17, `ring ${RINGS.length - index}`, { class: 'small', style: 'stroke:none' }),
    ...folders.flatMap(([name, words], i) =>
      box(name, `${name}/`, words, x + MARGIN + i * (each + gap), y + NAME, each),
    ),
  ]
}

function box(folder: string, name: string, words: string, x: number, y: number, width: number): string[] {
  const numbers = STOPS.flatMap((stop, i) => (stop.folder === folder ? [i + 1] : []))
  return [
    element('rect', { x, y, width, height: BOX, rx: 6, class: numbers.length > 0 ? 'paper left' : 'paper' }),
    text(x + 10, y + 21, name, { class: 'ink bold' }),
    text(x + 10, y + 40, words, { class: 'small' }),
    ...numbers.flatMap((number, i) => badge(number, x + width - 16 - 23 * (numbers.length - 1 - i), y + 17)),
  ]
}

function badge(number: number, x: number, y: number): string[] {
  return [
    element('circle', { cx: x, cy: y, r: 10, class: 'paper left' }),
    text(x, y + 4, String(number), { class: 'ink middle' }),
  ]
}

function legendRow({ folder, words }: Stop, index: number): string[] {
  const y = TOP + 14 + STEP * index
  return [
    ...badge(index + 1, LEGEND + 10, y),
    text(LEGEND + 30, y - 2, folder === 'lua' ? 'lua/, inside Redis' : `${folder}/`, { class: 'ink bold' }),
    text(LEGEND + 30, y + 14, words),
  ]
}
