/** Queues, and what processes wait for, in short tables. */
import { count, latency, plural, windowWords } from '../look/format.js'
import type { QueueRow, SharedRow } from '../view.js'
import { addressText } from './address.js'
import { ColumnHeads } from './column-heads.js'
import { Gauge, Panel } from './widgets.js'

export function QueueSummary({ queues }: { queues: readonly QueueRow[] }) {
  return (
    <Panel title="Queues" side={<a href={addressText({ page: 'queues' })}>all</a>}>
      <table>
        <ColumnHeads
          of={[
            ['Queue', 'names'],
            ['Waiting', 'number'],
            ['Late, p99', 'number wide'],
            ['Dead', 'number'],
          ]}
        />
        <tbody>
          {queues.map(queue => (
            <tr key={queue.name}>
              <td>
                <a class="name plain" href={addressText({ page: 'queues' })}>
                  <bdi>{queue.name}</bdi>
                </a>
                {queue.paused && <span class="tag amber">paused</span>}
              </td>
              <td class="number">{count(queue.ready + queue.delayed)}</td>
              <td class="number wide">
                {queue.late99 === undefined ? <span class="muted">–</span> : latency(queue.late99)}
              </td>
              <td class="number">
                <span class={queue.dead > 0 ? 'refused' : 'muted'}>{count(queue.dead)}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  )
}

export function SharedSummary({ shared }: { shared: readonly SharedRow[] }) {
  return (
    <Panel title="Semaphores and rates" side={<a href={addressText({ page: 'waiting' })}>all</a>}>
      <table>
        <ColumnHeads of={[['Name', 'names'], ['In use'], ['Waiting', 'number']]} />
        <tbody>
          {shared.map(row => (
            <tr key={`${row.kind} ${row.name}`}>
              <td>
                <SharedName of={row} />
              </td>
              <td>
                <Use of={row} />
              </td>
              <td class="number">{row.waiting > 0 ? count(row.waiting) : <span class="muted">0</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  )
}

const KINDS = { rate: 'rate', semaphore: '', concurrency: 'places', limiter: 'limiter' } as const

export function SharedName({ of }: { of: SharedRow }) {
  return (
    <>
      <strong>
        <bdi>{of.name}</bdi>
      </strong>
      {KINDS[of.kind] !== '' && <span class="muted"> {KINDS[of.kind]}</span>}
      {of.steered !== undefined && <span class="muted">, steered by followLoad</span>}
    </>
  )
}

/** '6 of 8' with a bar; '92 of 100 per second' of a rate. */
export function Use({ of }: { of: SharedRow }) {
  const { kind, inUse, of: most, intervalMs, mode } = of
  if (kind === 'limiter') return <span class="muted">waiting lines of processes</span>
  if (most === undefined) {
    if (inUse !== undefined) return <span>{plural(inUse, 'request')} inside</span>
    return <span class="muted">{kind === 'rate' ? 'no rate is set' : 'no permits are set'}</span>
  }
  const per = intervalMs === undefined ? '' : intervalMs === 1000 ? '/s' : ` per ${windowWords(intervalMs)}`
  if (inUse === undefined)
    return (
      <span>
        {count(most)}
        {per}
        {mode === 'per-client' && ', each process apart'}
      </span>
    )
  return (
    <Gauge share={most > 0 ? inUse / most : inUse > 0 ? 1 : 0}>
      {count(inUse)} of {count(most)}
      {per}
    </Gauge>
  )
}
