import type { ComponentChildren } from 'preact'

/** A column of a table. */
export interface Column<Row> {
  readonly title: string
  /** Classes of its head and its cells, like 'number wide'. */
  readonly kind?: string
  readonly cell: (row: Row, index: number) => ComponentChildren
  /** Its cells are the heads of their rows. */
  readonly names?: boolean
}

/** The heads of a table's columns. */
export function ColumnHeads({
  of,
  acts = false,
}: {
  of: ReadonlyArray<Pick<Column<never>, 'title' | 'kind'>>
  /** Whether a column of buttons follows. */
  acts?: boolean
}) {
  return (
    <thead>
      <tr>
        {of.map(({ title, kind }) => (
          <th key={title} scope="col" class={kind}>
            {title}
          </th>
        ))}
        {acts && (
          <th scope="col">
            <span class="hidden">Action</span>
          </th>
        )}
      </tr>
    </thead>
  )
}

/** A table with a row for each of some things. */
export function Table<Row>({
  of,
  columns,
  rows,
  keyOf,
  rowKind,
  acts,
}: {
  /** The class of the table. */
  of?: string
  columns: ReadonlyArray<Column<Row>>
  rows: readonly Row[]
  keyOf: (row: Row, index: number) => string | number
  rowKind?: (row: Row) => string
  /** The buttons at the end of each row; absent: there is no such column. */
  acts?: (row: Row) => ComponentChildren
}) {
  return (
    <table class={of}>
      <ColumnHeads of={columns} acts={acts !== undefined} />
      <tbody>
        {rows.map((row, i) => (
          <tr key={keyOf(row, i)} class={rowKind?.(row)}>
            {columns.map(({ title, kind, cell, names }) =>
              names ? (
                <th key={title} scope="row" class="row-name">
                  {cell(row, i)}
                </th>
              ) : (
                <td key={title} class={kind}>
                  {cell(row, i)}
                </td>
              ),
            )}
            {acts !== undefined && <td class="number">{acts(row)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
