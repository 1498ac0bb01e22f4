/** Rows of text under a heading each; all columns but the first are numbers and stand to the right. */
export interface Table {
  readonly caption: string
  readonly head: readonly string[]
  readonly rows: ReadonlyArray<readonly string[]>
}

/** A table in Markdown that also reads well as plain text. */
export function tableText({ caption, head, rows }: Table): string {
  const widths = head.map((_, i) => Math.max(3, ...[head, ...rows].map(row => row[i].length)))
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`
  const rule = `|${widths.map((width, i) => (i === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`
  return [caption, '', line(head), rule, ...rows.map(line)].join('\n')
}
