/** The report of a replay as a page: the log, the policies, when they refuse, whom, and on which paths. */
import { useState } from 'preact/hooks'
import { count, span } from '../../../dashboard/look/format.js'
import type { PageData } from '../page-data.js'
import { Policies } from './policies.js'
import { RefusedChart } from './refused-chart.js'
import { Rows } from './rows.js'
import { Subjects } from './subjects.js'
import { fullUtc, requests, subjectWord } from './words.js'

export function Report({ data }: { data: PageData }) {
  const [shown, setShown] = useState(0)
  return (
    <>
      <header class="masthead">
        <div class="column">
          <span class="brand">
            <svg viewBox="0 0 22 16" width="22" height="16" aria-hidden="true">
              <path d="M1 3h5c5 0 3 10 8 10h7" />
              <path d="M1 7h3c5 0 3 6 8 6h2" />
            </svg>
            <strong>spillway</strong>
            <span class="muted">replay</span>
          </span>
        </div>
      </header>
      <main class="column report">
        <h1>{data.log}</h1>
        <Summary data={data} />
        {data.requests > 0 && (
          <>
            <Policies data={data} />
            <RefusedChart data={data} />
            {data.tables.map(table => (
              <Subjects key={table.subject} data={data} table={table} shown={shown} setShown={setShown} />
            ))}
            <Rows data={data} />
          </>
        )}
        <p class="muted foot">
          Made by <code>spillway replay</code>: each request of the log at its own time, through the limiter's own
          arithmetic. The replay assumes that refusals would not have changed when clients come. All times are UTC.
        </p>
      </main>
    </>
  )
}

/** Numbers as on the rest of the page: '4 915' for '4,915'. */
function spaced(text: string): string {
  return text.replace(/(\d),(?=\d{3})/g, '$1\u202f')
}

function Summary({ data }: { data: PageData }) {
  const { from, to, keys, by, notes } = data
  return (
    <div class="summary">
      <ul class="facts">
        <li>
          <strong>{count(data.requests)}</strong> {requests(data.requests).split(' ').at(-1)}
        </li>
        <li>
          <strong>{count(keys)}</strong> {subjectWord(by, keys)}
        </li>
        {from !== null && to !== null && (
          <>
            <li>
              {fullUtc(from)} to {fullUtc(to)} UTC
            </li>
            <li class="muted">{to > from ? span((to - from) * 1000) : 'one second'}</li>
          </>
        )}
      </ul>
      {notes.length > 0 && (
        <ul class="notes muted">
          {notes.map(note => (
            <li key={note}>{spaced(note)}</li>
          ))}
        </ul>
      )}
    </div>
  )
}
