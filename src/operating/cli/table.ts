import { grouped } from '../dashboard/look/format.js'

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

/** 1729 as '1,729': a terminal may know no other separator than those of ASCII. */
export function count(value: number): string {
  return grouped(String(value), ',')
}

/** '1 line', '1,729 lines'. */
export function counted(value: number, noun: string, form = count): string {
  return `${form(value)} ${noun}${value === 1 ? '' : 's'}`
}

/** Bytes: '1.5 GB', '12.0 MB', '800 kB'. */
export function sizeOf(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${count(Math.ceil(bytes / 1e3))} kB`
}

/** '17.3 %'; '<0.1 %' instead of 0 for a small part, '>99.9 %' instead of 100 for an incomplete one. */
export function share(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %'
  const percent = (part / whole) * 100
  if (percent < 0.1) return '<0.1 %'
  return part < whole && percent > 99.9 ? '>99.9 %' : `${percent.toFixed(1)} %`
}
