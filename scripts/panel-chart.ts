import { escaped } from './drawing/svg.js'

/** One series: moments in s from the left edge, and values. */
export interface Line {
  readonly name: string
  readonly points: ReadonlyArray<readonly [seconds: number, value: number]>
}

interface Panel {
  readonly title: string
  /** As Grafana calls it. */
  readonly unit: string
  readonly lines: readonly Line[]
  readonly seconds: number
}

const WIDTH = 720
const HEIGHT = 190
const LEFT = 64
const TOP = 30
const RIGHT = 12
const BOTTOM = 24
const LEGEND_LINE = 16
const COLOURS = ['#2a6fb0', '#c8552b', '#3b8f4f', '#8a5bb5', '#b8901f', '#5c6b76', '#c13d7a', '#2b9c9c']

const UNITS: Readonly<Record<string, (value: number) => string>> = {
  percentunit: value => `${round(value * 100)} %`,
  s: value => (value < 1 ? `${round(value * 1000)} ms` : `${round(value)} s`),
  reqps: value => `${round(value)} /s`,
  ops: value => `${round(value)} /s`,
  short: round,
}

/** The file in docs/observing/ that shows a panel of the Grafana dashboard. */
export function panelFile(title: string): string {
  return `${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}.svg`
}

/** A panel as an SVG picture. */
export function panelChart({ title, unit, lines, seconds }: Panel): string {
  const drawn = lines.map(({ name, points }) => ({
    name,
    points: points.filter(([, value]) => Number.isFinite(value)),
  }))
  const highest = Math.max(0, ...drawn.flatMap(({ points }) => points.map(([, value]) => value)))
  const step = niceStep(highest / 4)
  const top = Math.max(step, Math.ceil(highest / step) * step)
  const x = (at: number) => (LEFT + (at / seconds) * (WIDTH - LEFT - RIGHT)).toFixed(1)
  const y = (value: number) => (HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM)).toFixed(1)
  const said = UNITS[unit] ?? round
  const parts: string[] = []
  for (let value = 0; value <= top * 1.001; value += step) {
    parts.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}" stroke="#d9dee2"/>`)
    parts.push(text(LEFT - 6, Number(y(value)) + 4, said(value), 'end'))
  }
  for (let at = 0; at <= seconds; at += 20) parts.push(text(Number(x(at)), HEIGHT - 8, `${at} s`, 'middle'))
  drawn.forEach(({ points }, i) => {
    const path = points.map(([at, value]) => `${x(at)},${y(value)}`).join(' ')
    parts.push(`<polyline points="${path}" fill="none" stroke="${COLOURS[i % COLOURS.length]}" stroke-width="1.6"/>`)
  })
  if (drawn.length === 0) parts.push(text((LEFT + WIDTH) / 2, HEIGHT / 2, 'no such events', 'middle'))
  let [left, line] = [LEFT, 0]
  drawn.forEach(({ name }, i) => {
    const width = 26 + name.length * 6.4
    if (left + width > WIDTH) [left, line] = [LEFT, line + 1]
    const at = HEIGHT + 8 + line * LEGEND_LINE
    parts.push(`<rect x="${left}" y="${at - 4}" width="12" height="3" fill="${COLOURS[i % COLOURS.length]}"/>`)
    parts.push(text(left + 16, at, name, 'start'))
    left += width
  })
  const height = HEIGHT + (drawn.length > 0 ? 18 + line * LEGEND_LINE : 0)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="11" fill="#3a444c" role="img" aria-label="${escaped(title)}">
<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>
<text x="${LEFT}" y="18" font-size="13" font-weight="bold">${escaped(title)}</text>
${parts.join('\n')}
</svg>
`
}

function text(x: number, y: number, words: string, anchor: string): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}">${escaped(words)}</text>`
}

function round(value: number): string {
  return String(Number(value.toPrecision(3)))
}

/** 1, 2 or 5 times a power of ten. */
function niceStep(least: number): number {
  if (!(least > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(least))
  return power * ([1, 2, 5, 10].find(times => times * power >= least) ?? 10)
}
