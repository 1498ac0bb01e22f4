import { element, escaped } from './svg.js'

interface Palette {
  readonly paper: string
  readonly ink: string
  readonly muted: string
  readonly grid: string
  readonly left: string
  readonly allowed: string
  readonly denied: string
  readonly leaves: string
}

const LIGHT: Palette = {
  paper: '#ffffff',
  ink: '#1f2328',
  muted: '#59636e',
  grid: '#d1d9e0',
  left: '#0969da',
  allowed: '#1a7f37',
  denied: '#cf222e',
  leaves: '#8250df',
}

const DARK: Palette = {
  paper: '#0d1117',
  ink: '#e6edf3',
  muted: '#9198a1',
  grid: '#3d444d',
  left: '#4493f8',
  allowed: '#3fb950',
  denied: '#f85149',
  leaves: '#ab7df8',
}

/**
 * A picture with paper of its own: readable on any page, whether or not the page and the reader's system agree on dark.
 */
export function page(width: number, height: number, title: string, description: string, ...body: string[]): string {
  const paper = { x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 8, class: 'paper' }
  const drawing = element(
    'svg',
    { xmlns: 'http://www.w3.org/2000/svg', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img' },
    `\n${element('title', {}, escaped(title))}`,
    `\n${element('desc', {}, escaped(description))}`,
    `\n${element('style', {}, `\n${style()}`)}\n`,
    `${[element('rect', paper), ...body].join('\n')}\n`,
  )
  return `${drawing}\n`
}

function style(): string {
  return [
    'text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}',
    // Words keep a margin of paper around them, so that lines may pass behind.
    'text{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}',
    '.name{font-size:15px;font-weight:600}',
    '.small{font-size:11px}',
    '.bold{font-weight:600}',
    '.end{text-anchor:end}',
    '.middle{text-anchor:middle}',
    'path{fill:none}',
    '.mark{stroke-width:2.6;stroke-linecap:round}',
    '.curve{stroke-width:1.8;stroke-linejoin:round}',
    '.area{stroke:none;opacity:.14}',
    '.thin{opacity:.45}',
    '.dashed{stroke-dasharray:3 3}',
    ...colours(LIGHT),
    `@media (prefers-color-scheme:dark){`,
    ...colours(DARK),
    '}',
    '',
  ].join('\n')
}

function colours(palette: Palette): string[] {
  const { paper, ink, muted, grid, ...marks } = palette
  return [
    `.paper{fill:${paper};stroke:${grid}}`,
    `text{fill:${muted};stroke:${paper}}`,
    `.ink{fill:${ink}}`,
    `.grid{stroke:${grid}}`,
    `.rule{stroke:${muted}}`,
    ...Object.entries(marks).map(([name, colour]) => `.${name}{stroke:${colour}}.${name}-text{fill:${colour}}`),
    `.area{fill:${marks.left}}`,
  ]
}
