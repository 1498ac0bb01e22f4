import { QUOTA, REQUESTS, type Story, WINDOW_MS } from './burst.js'
import { brace, DEPARTURE, departures, requestMarks, Scale, timeAxis, WIDTH } from './marks.js'
import { page } from './page.js'
import { element, line, shown, text } from './svg.js'

const SCALE = new Scale(112, 832)
const LABELS = 96
const CHART_TOP = 56
const CHART_BOTTOM = 136
const REQUESTS_AT = CHART_BOTTOM + 36

/** The picture of one algorithm: what is left over time, which requests are allowed, and the busiest window. */
export function panel(story: Story): string {
  const { limit, arrivals, busiest } = story
  const shapes = limit.algorithm === 'leaky-bucket'
  const braceAt = REQUESTS_AT + (shapes ? DEPARTURE + 16 : 32)
  const axisAt = braceAt + 26
  const allowed = arrivals.filter(arrival => arrival.allowed).length
  return page(
    WIDTH,
    axisAt + 28,
    `${limit.algorithm}: a burst of requests under a limit of ${QUOTA} per ${WINDOW_MS / 1000} s`,
    `Of ${REQUESTS.length} requests, most of them in a burst from 8 to 12 seconds, ${allowed} are allowed; ` +
      `${busiest.count} ${shapes ? 'leave' : 'are allowed'} in the busiest span of ${WINDOW_MS / 1000} seconds.`,
    text(24, 30, limit.algorithm, { class: 'name ink' }),
    text(SCALE.right, 30, `${allowed} of ${REQUESTS.length} requests allowed`, { class: 'end' }),
    ...timeAxis(SCALE, CHART_TOP, axisAt),
    ...borders(story, REQUESTS_AT + 18),
    ...curve(story),
    ...(shapes ? departures(SCALE, story, REQUESTS_AT) : []),
    ...requestMarks(SCALE, arrivals, REQUESTS_AT),
    text(LABELS, REQUESTS_AT - 5, 'allowed', { class: 'end allowed-text' }),
    text(LABELS, REQUESTS_AT + 14, 'denied', { class: 'end denied-text' }),
    ...(shapes ? [text(LABELS, REQUESTS_AT + DEPARTURE - 5, 'leaves', { class: 'end leaves-text' })] : []),
    ...brace(SCALE, story, braceAt),
  )
}

function curve({ remaining }: Story): string[] {
  const y = (units: number) => CHART_BOTTOM - (units / QUOTA) * (CHART_BOTTOM - CHART_TOP)
  const [first, ...steps] = remaining
  const path = steps.map(({ at, units }) => `H${shown(SCALE.x(at))}V${shown(y(units))}`).join('')
  const top = `M${SCALE.left} ${shown(y(first.units))}${path}H${SCALE.right}`
  return [
    line(SCALE.left, y(QUOTA), SCALE.right, y(QUOTA), { class: 'grid' }),
    line(SCALE.left, y(0), SCALE.right, y(0), { class: 'grid' }),
    element('path', { class: 'area', d: `${top}V${y(0)}H${SCALE.left}Z` }),
    element('path', { class: 'curve left', d: top }),
    text(LABELS, y(QUOTA) + 4, String(QUOTA), { class: 'small end' }),
    text(LABELS, y(QUOTA / 2) + 4, 'remaining', { class: 'end left-text' }),
    text(LABELS, y(0) + 4, '0', { class: 'small end' }),
  ]
}

function borders({ borders, limit }: Story, bottom: number): string[] {
  const words = limit.algorithm === 'fixed-window' ? 'a window begins' : 'a cell begins'
  return borders.flatMap(at => [
    line(SCALE.x(at), CHART_TOP - 10, SCALE.x(at), bottom, { class: 'rule dashed' }),
    text(SCALE.x(at) + 6, CHART_TOP - 5, words, { class: 'small' }),
  ])
}
