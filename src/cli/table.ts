/** Columns of text, two spaces apart, in lines without trailing space. Columns marked 'right' are right-aligned. */
export function table(rows: ReadonlyArray<readonly string[]>, align: ReadonlyArray<'left' | 'right'>): string[] {
  const widths = align.map((_, column) => rows.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0))
  return rows.map(row =>
    row
      .map((cell, column) => (align[column] === 'right' ? cell.padStart(widths[column]) : cell.padEnd(widths[column])))
      .join('  ')
      .trimEnd(),
  )
}

/** 1729 as '1,729'. */
export function count(value: number): string {
  return value.toLocaleString('en-US')
}

/** '1 line', '1,729 lines'. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`
}

/** '17.3 %'; '<0.1 %' instead of 0 for a small part, '>99.9 %' instead of 100 for an incomplete one. */
export function share(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %'
  const percent = (part / whole) * 100
  if (percent < 0.1) return '<0.1 %'
  return part < whole && percent > 99.9 ? '>99.9 %' : `${percent.toFixed(1)} %`
}
