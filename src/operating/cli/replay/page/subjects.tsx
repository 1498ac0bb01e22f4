/** Who, or which paths, would have been refused: a table that can be sorted, with a small chart in each row. */
import { useState } from 'preact/hooks'
import { count } from '../../../dashboard/look/format.js'
import { SmallChart } from '../../../dashboard/page/chart.js'
import type { SubjectDetails } from '../ranking.js'
import { letterOf, type PageReport } from '../report.js'
import { subjectChart, trafficOf } from './series.js'
import { subjectWord, waitWords } from './words.js'

type Row = SubjectDetails['top'][number]

const FIRST = 10

interface Column {
  readonly id: string
  readonly title: string
  /** Before the title, where there is room. */
  readonly word?: string
  readonly narrow?: string
  readonly value: (row: Row) => number | string
  readonly text?: (row: Row) => string
  readonly refused?: boolean
}

interface Sorting {
  readonly id: string
  readonly ascending: boolean
}

export function Subjects(props: {
  data: PageReport
  table: SubjectDetails
  shown: number
  setShown: (policy: number) => void
}) {
  const { data, table, shown, setShown } = props
  const { subject, top: rows } = table
  const [sorting, setSorting] = useState<Sorting | undefined>(undefined)
  const [all, setAll] = useState(false)
  const refused = rows.some(row => row.denied.some(denied => denied > 0))
  const columns = columnsOf(data, table, shown)
  const sorted = sortedBy(rows, columns, sorting)
  const listed = all ? sorted : sorted.slice(0, FIRST)
  const title = subjectWord(subject, 2)
  const id = `table-${subject}`
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{refused ? `${capital(title)} refused most` : `Busiest ${title}`}</h2>
        {data.trials.length > 1 ? (
          <PolicyChoice data={data} table={table} shown={shown} setShown={setShown} />
        ) : (
          <span class="muted">
            {count(listed.length)} of {count(table.count)}
          </span>
        )}
      </header>
      <table class="subjects">
        <thead>
          <tr>
            <Heading column={columns[0]} first sorting={sorting} sort={setSorting} />
            <th scope="col" class="wide">
              Allowed and refused{data.trials.length > 1 && ` by ${letterOf(shown, data.trials.length)}`}
            </th>
            {columns.slice(1).map(column => (
              <Heading key={column.id} column={column} first={false} sorting={sorting} sort={setSorting} />
            ))}
          </tr>
        </thead>
        <tbody>
          {listed.map(row => (
            <tr key={row.key} class={row.denied.some(denied => denied > 0) ? '' : 'quiet'}>
              <th scope="row" class="row-name">
                <span class="key">{row.key}</span>
              </th>
              <td class="wide">
                <SmallChart
                  traffic={trafficOf(subjectChart(table, row.activity, data.trials.length), shown)}
                  sentence={`${count(row.requests)} requests, ${count(row.denied[shown])} of them refused`}
                />
              </td>
              {columns.slice(1).map(({ id, value, text, refused, narrow }) => (
                <td key={id} class={`number ${refused && Number(value(row)) > 0 ? 'refused' : ''} ${narrow ?? ''}`}>
                  {text === undefined ? count(Number(value(row))) : text(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > FIRST && (
        <p class="more">
          <button type="button" class="link" onClick={() => setAll(!all)}>
            {all ? `Show the first ${FIRST}` : `Show ${count(rows.length)}`}
          </button>
          {table.count > rows.length && <span class="muted"> of {count(table.count)}</span>}
        </p>
      )}
    </section>
  )
}

/** Chooses the policy of the charts and waits in the tables. */
function PolicyChoice(props: {
  data: PageReport
  table: SubjectDetails
  shown: number
  setShown: (policy: number) => void
}) {
  const { data, table, shown, setShown } = props
  return (
    <fieldset class="choice">
      <legend class="muted">Charts and waits by</legend>
      {data.trials.map((policy, i) => (
        <label key={policy.text} class={i === shown ? 'chosen' : ''} title={policy.text}>
          <input
            type="radio"
            class="hidden"
            name={`policy-${table.subject}`}
            checked={i === shown}
            onChange={() => setShown(i)}
          />
          {letterOf(i, data.trials.length)}
        </label>
      ))}
    </fieldset>
  )
}

function Heading(props: { column: Column; first: boolean; sorting: Sorting | undefined; sort: (by: Sorting) => void }) {
  const { column, first, sorting, sort } = props
  const { id, title, word, narrow = '' } = column
  const mine = sorting?.id === id
  // A first click sorts numbers in descending order, names in ascending order.
  const ascending = mine ? !sorting.ascending : first
  return (
    <th
      scope="col"
      class={`${first ? '' : 'number'} ${narrow}`}
      aria-sort={mine ? (sorting.ascending ? 'ascending' : 'descending') : undefined}
    >
      <button type="button" class="sort" onClick={() => sort({ id, ascending })}>
        {word !== undefined && <span class="word">{word}</span>}
        {title}
        <span class="arrow" aria-hidden="true">
          {mine ? (sorting.ascending ? '↑' : '↓') : ''}
        </span>
      </button>
    </th>
  )
}

function columnsOf(data: PageReport, { subject }: SubjectDetails, shown: number): Column[] {
  const policies = data.trials
  const name = subjectWord(subject, 1)
  return [
    { id: 'key', title: capital(name), value: row => row.key },
    { id: 'requests', title: 'Requests', narrow: 'medium', value: row => row.requests },
    ...policies.map((_, i) => ({
      id: `refused-${i}`,
      word: policies.length > 1 ? 'Refused ' : undefined,
      title: letterOf(i, policies.length) || 'Refused',
      refused: true,
      value: (row: Row) => row.denied[i],
    })),
    {
      id: 'wait',
      title: policies.length > 1 ? `Longest wait, ${letterOf(shown, policies.length)}` : 'Longest wait',
      narrow: 'medium',
      value: row => (row.longestWaits[shown] < 0 ? Number.POSITIVE_INFINITY : row.longestWaits[shown]),
      text: row => waitWords(row.longestWaits[shown]),
    },
  ]
}

function sortedBy(rows: readonly Row[], columns: readonly Column[], sorting: Sorting | undefined) {
  const column = columns.find(({ id }) => id === sorting?.id)
  if (column === undefined || sorting === undefined) return rows
  const sign = sorting.ascending ? 1 : -1
  return [...rows].sort((a, b) => {
    const [left, right] = [column.value(a), column.value(b)]
    if (typeof left === 'string') return sign * left.localeCompare(String(right))
    return left === right ? 0 : sign * (left < Number(right) ? -1 : 1)
  })
}

function capital(text: string): string {
  return text[0].toUpperCase() + text.slice(1)
}
