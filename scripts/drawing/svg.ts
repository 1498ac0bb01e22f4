/**
 * Names and values of attributes; numbers are written with at most two decimals, so that files are small and always the
 * same.
 */
export type Attributes = Readonly<Record<string, string | number>>

/** An element as text; children that are already text stand as they are. */
export function element(name: string, attributes: Attributes = {}, ...children: string[]): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(shown(value))}"`)
  const start = `<${name}${written.join('')}`
  if (children.length === 0) return `${start}/>`
  return `${start}>${children.join('')}</${name}>`
}

export function text(x: number, y: number, content: string, attributes: Attributes = {}): string {
  return element('text', { x, y, ...attributes }, escaped(content))
}

export function line(x1: number, y1: number, x2: number, y2: number, attributes: Attributes = {}): string {
  return element('path', { d: `M${shown(x1)} ${shown(y1)}L${shown(x2)} ${shown(y2)}`, ...attributes })
}

/** Many strokes in one path: a file with an element for each would be three times as long. */
export function strokes(lines: ReadonlyArray<readonly [x1: number, y1: number, x2: number, y2: number]>): string {
  return lines.map(([x1, y1, x2, y2]) => `M${shown(x1)} ${shown(y1)}L${shown(x2)} ${shown(y2)}`).join('')
}

export function shown(value: string | number): string {
  return typeof value === 'number' ? String(Math.round(value * 100) / 100) : value
}

export function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
