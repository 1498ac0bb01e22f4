import { clock, plural, rate, span, when } from '../look/format.js'
import type { ProcessesView, ProcessView } from '../server/page-views.js'
import { Table } from './table.js'
import { Ago, Gauge, Moment, Nothing, Panel } from './widgets.js'

export function ProcessesPage({ view }: { view: ProcessesView }) {
  const services = [...new Set(view.processes.map(({ service }) => service))].sort()
  if (services.length === 0) {
    return (
      <Panel title="Processes">
        <Nothing>No process has reported within an hour. A process that decides nothing sends nothing.</Nothing>
      </Panel>
    )
  }
  return (
    <>
      {services.map(service => (
        <Service
          key={service}
          service={service}
          processes={view.processes.filter(process => process.service === service)}
          now={view.now}
        />
      ))}
    </>
  )
}

function Service({ service, processes, now }: { service: string; processes: readonly ProcessView[]; now: number }) {
  const sorted = [...processes].sort(
    (a, b) => Number(a.silent) - Number(b.silent) || a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1),
  )
  const silent = processes.filter(process => process.silent).length
  return (
    <Panel
      title={service}
      side={`${plural(processes.length, 'process', 'processes')}${silent > 0 ? `, ${silent} silent` : ''}`}
    >
      <Table
        rows={sorted}
        keyOf={({ id }) => id}
        rowKind={({ silent }) => (silent ? 'quiet' : '')}
        columns={[
          {
            title: 'Process',
            kind: 'names',
            cell: ({ host, pid, breaker }) => (
              <>
                <bdi class="name">{host}</bdi> <span class="muted">pid {pid}</span>
                {breaker !== undefined && (
                  <span class="tag amber" title={breaker.reason}>
                    breaker open since {clock(breaker.since)}
                  </span>
                )}
              </>
            ),
          },
          {
            title: 'Version',
            kind: 'wide',
            cell: ({ version }) => (version === '' ? <span class="muted">–</span> : version),
          },
          {
            title: 'Runs since',
            kind: 'wide',
            cell: ({ startedAt }) => (
              <Moment at={startedAt}>
                {span(Math.max(0, now - startedAt))} <span class="muted">({when(startedAt, now)})</span>
              </Moment>
            ),
          },
          {
            title: 'Heard of',
            cell: ({ heardAt, silent, idle }) => (
              <>
                <span class={silent ? 'dot off' : 'dot'} aria-hidden="true" />
                <Ago at={heardAt} now={now} />
                {silent && <span class="muted">, silent</span>}
                {idle && <span class="muted">, idle</span>}
              </>
            ),
          },
          { title: 'Decisions/s', kind: 'number', cell: ({ perSecond }) => rate(perSecond) },
          { title: 'Share', kind: 'wide share-bar', cell: ({ share }) => <Gauge share={share} /> },
        ]}
      />
    </Panel>
  )
}
