/** The report of a replay as a page: the log, the policies, when they refuse, whom, and on which paths. */
import { useMemo, useState } from 'preact/hooks'
import { count, span, windowWords } from '../../../dashboard/look/format.js'
import { SmallChart } from '../../../dashboard/page/chart.js'
import { Table } from '../../../dashboard/page/table.js'
import { share } from '../../table.js'
import { letterOf, noteLines, type PageReport } from '../report.js'
import type { TimelineRow } from '../timeline.js'
import { RefusedChart } from './refused-chart.js'
import { type Chart, chartOf, trafficOf } from './series.js'
import { Subjects } from './subjects.js'
import { fullUtc, Swatch, subjectWord, trialWords, utc, waitWords } from './words.js'

export function Report({ data }: { data: PageReport }) {
  const [shown, setShown] = useState(0)
  const chart = useMemo(() => chartOf(data), [data])
  const { keys, others } = data.details
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
            <Policies data={data} chart={chart} />
            <RefusedChart data={data} chart={chart} />
            {[keys, others].map(table => (
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

function Summary({ data }: { data: PageReport }) {
  const { from, to, keys, by } = data
  const notes = noteLines(data, count)
  return (
    <div class="summary">
      <ul class="facts">
        <li>
          <strong>{count(data.requests)}</strong> {data.requests === 1 ? 'request' : 'requests'}
        </li>
        <li>
          <strong>{count(keys)}</strong> {subjectWord(by, keys)}
        </li>
        {from !== undefined && to !== undefined && (
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
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** The policies side by side: what each allows and refuses, and how long the refused would wait. */
function Policies({ data, chart }: { data: PageReport; chart: Chart }) {
  const { trials, by, keys, requests, details } = data
  const whose = subjectWord(by, 2)
  const refused = (denied: number, text: string) => (denied > 0 ? <span class="refused">{text}</span> : text)
  return (
    <section class="panel" aria-labelledby="policies">
      <header>
        <h2 id="policies">{trials.length === 1 ? 'Policy' : 'Policies'}</h2>
        <span class="muted">{trials.length > 1 ? 'each with the whole log' : ''}</span>
      </header>
      <Table
        of="policies"
        rows={trials}
        keyOf={({ text }) => text}
        rowKind={({ denied }) => (denied > 0 ? '' : 'quiet')}
        columns={[
          {
            title: 'Limit',
            names: true,
            cell: (trial, i) => (
              <div class="policy">
                {trials.length > 1 && <Swatch index={i} />}
                {trials.length > 1 && <span class="letter">{letterOf(i, trials.length)}</span>}
                <span class="policy-words">
                  <span class="name">{trialWords(trial, by)}</span>
                  <code class="muted">{trial.text}</code>
                </span>
              </div>
            ),
          },
          {
            title: 'Allowed and refused',
            kind: 'wide',
            cell: ({ denied }, i) => (
              <SmallChart
                traffic={trafficOf(chart, i)}
                sentence={`${count(requests - denied)} allowed and ${count(denied)} refused`}
              />
            ),
          },
          { title: 'Allowed', kind: 'number medium', cell: ({ denied }) => count(requests - denied) },
          { title: 'Refused', kind: 'number', cell: ({ denied }) => refused(denied, count(denied)) },
          { title: 'Share', kind: 'number', cell: ({ denied }) => refused(denied, share(denied, requests)) },
          {
            title: `${whose[0].toUpperCase() + whose.slice(1)} refused, of ${count(keys)}`,
            kind: 'number medium',
            cell: ({ deniedKeys }) => count(deniedKeys),
          },
          { title: 'Median wait', kind: 'number wide', cell: (_, i) => waitWords(details.waits[i]?.median) },
          { title: 'Longest wait', kind: 'number medium', cell: (_, i) => waitWords(details.waits[i]?.longest) },
        ]}
      />
    </section>
  )
}

/** The timeline in numbers, as the text report has it. */
function Rows({ data }: { data: PageReport }) {
  const { trials, timeline } = data
  const { spanSeconds, rows } = timeline
  return (
    <details class="panel">
      <summary>Numbers, a row for every {windowWords(spanSeconds * 1000)}</summary>
      <Table
        of="rows"
        rows={rows}
        keyOf={({ at }) => at}
        columns={[
          { title: 'From (UTC)', names: true, cell: ({ at }) => utc(at, spanSeconds) },
          { title: 'Requests', kind: 'number', cell: ({ requests }) => count(requests) },
          ...trials.map((_, i) => ({
            title: `Refused ${letterOf(i, trials.length)}`,
            kind: 'number',
            cell: ({ denied }: TimelineRow) => (
              <span class={denied[i] > 0 ? 'refused' : 'muted'}>{count(denied[i])}</span>
            ),
          })),
        ]}
      />
    </details>
  )
}
