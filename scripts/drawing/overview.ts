import { QUOTA, REQUESTS, type Story, WINDOW_MS } from './burst.js'
import { DEPARTURE, departures, marks, requestMarks, Scale, timeAxis, WIDTH } from './marks.js'
import { page } from './page.js'
import { line, text } from './svg.js'

const SCALE = new Scale(150, 660)
const TOP = 92
const ROW = 50
const COUNTS = [735, 832]

/** All algorithms below one another: which of the same requests each allows. */
export function overview(stories: readonly Story[]): string {
  const seconds = WINDOW_MS / 1000
  const rows = stories.map((story, i) => row(story, TOP + ROW * (i + 1)))
  const bottom = TOP + ROW * stories.length + DEPARTURE + 16
  return page(
    WIDTH,
    bottom + 28,
    `The same burst through the five algorithms, ${QUOTA} per ${seconds} s`,
    stories
      .map(
        ({ limit, arrivals, busiest }) =>
          `${limit.algorithm} allows ${allowedOf(arrivals)} of ${REQUESTS.length} requests, ${busiest.count} in ` +
          `its busiest ${seconds} seconds`,
      )
      .join('; '),
    text(24, 30, `The same requests, ${QUOTA} per ${seconds} s`, { class: 'name ink' }),
    text(SCALE.right, 30, 'allowed above the line, denied below', { class: 'end' }),
    ...timeAxis(SCALE, TOP - 38, bottom),
    text(24, TOP - 6, 'requests', { class: 'ink' }),
    line(SCALE.left, TOP, SCALE.right, TOP, { class: 'rule' }),
    marks(SCALE, REQUESTS, TOP, 'rule'),
    text(COUNTS[0], TOP - 20, 'allowed', { class: 'end' }),
    text(COUNTS[0], TOP - 5, 'in all', { class: 'end' }),
    text(COUNTS[1], TOP - 20, 'in the', { class: 'end' }),
    text(COUNTS[1], TOP - 5, `busiest ${seconds} s`, { class: 'end' }),
    ...rows.flat(),
  )
}

function row(story: Story, y: number): string[] {
  const { limit, arrivals, busiest } = story
  const shapes = limit.algorithm === 'leaky-bucket'
  const inWindow = { class: busiest.count > QUOTA ? 'name end denied-text' : 'name end allowed-text' }
  return [
    text(24, y + 4, limit.algorithm, { class: 'ink' }),
    ...(shapes ? departures(SCALE, story, y) : []),
    ...requestMarks(SCALE, arrivals, y),
    ...(shapes ? [text(24, y + DEPARTURE - 5, 'leaves', { class: 'leaves-text' })] : []),
    text(COUNTS[0], y + 5, String(allowedOf(arrivals)), { class: 'name ink end' }),
    text(COUNTS[1], y + 5 + (shapes ? DEPARTURE - 8 : 0), String(busiest.count), inWindow),
  ]
}

function allowedOf(arrivals: Story['arrivals']): number {
  return arrivals.filter(({ allowed }) => allowed).length
}
