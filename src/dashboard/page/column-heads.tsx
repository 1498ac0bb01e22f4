/** The heads of a table's columns. */
export function ColumnHeads({
  of,
  acts = false,
}: {
  of: readonly (readonly [title: string, classes?: string])[]
  /** Whether a column of buttons follows. */
  acts?: boolean
}) {
  return (
    <thead>
      <tr>
        {of.map(([title, classes]) => (
          <th key={title} scope="col" class={classes}>
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
