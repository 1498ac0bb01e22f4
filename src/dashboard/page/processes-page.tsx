import { clock, plural, rate, span } from '../look/format.js'
import type { ProcessesView, ProcessView } from '../server/page-views.js'
import { ColumnHeads } from './column-heads.js'
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
      <table>
        <ColumnHeads
          of={[
            ['Process', 'names'],
            ['Version', 'wide'],
            ['Runs since', 'wide'],
            ['Heard of'],
            ['Decisions/s', 'number'],
            ['Share', 'wide share-bar'],
          ]}
        />
        <tbody>
          {sorted.map(({ id, host, pid, version, startedAt, heardAt, idle, silent, perSecond, share, breaker }) => (
            <tr key={id} class={silent ? 'quiet' : ''}>
              <td>
                <bdi class="name">{host}</bdi> <span class="muted">pid {pid}</span>
                {breaker !== undefined && (
                  <span class="tag amber" title={breaker.reason}>
                    breaker open since {clock(breaker.since)}
                  </span>
                )}
              </td>
              <td class="wide">{version === '' ? <span class="muted">–</span> : version}</td>
              <td class="wide">
                <Moment at={startedAt}>{span(Math.max(0, now - startedAt))}</Moment>
              </td>
              <td>
                <span class={silent ? 'dot off' : 'dot'} aria-hidden="true" />
                <Ago at={heardAt} now={now} />
                {silent && <span class="muted">, silent</span>}
                {idle && <span class="muted">, idle</span>}
              </td>
              <td class="number">{rate(perSecond)}</td>
              <td class="wide share-bar">
                <Gauge share={share} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  )
}
