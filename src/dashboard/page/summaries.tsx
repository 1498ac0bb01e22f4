/** Queues, and what processes wait for, in short tables. */
import { count, latency, plural, windowWords } from '../look/format.js'
import type { QueueRow, SharedRow } from '../view.js'
import { addressText } from './address.js'
import { ColumnHeads } from './column-heads.js'
import { Gauge, Panel } from './widgets.js'

/** What a page leaves out. */
export function More({ count, of }: { count: number; of: string }) {
  return count > 0 ? <p class="body muted">and {plural(count, `more ${of}`)}</p> : null
}

export function QueueSummary({ queues, more }: { queues: readonly QueueRow[]; more: number }) {
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
                {queue.unread === undefined && queue.paused && <span class="tag amber">paused</span>}
                {queue.unread !== undefined && <span class="tag amber">{queue.unread}</span>}
              </td>
              <td class="number">
                {queue.unread === undefined ? count(queue.ready + queue.delayed) : <span class="muted">–</span>}
              </td>
              <td class="number wide">
                {queue.late99 === undefined ? <span class="muted">–</span> : latency(queue.late99)}
              </td>
              <td class="number">
                {queue.unread === undefined ? (
                  <span class={queue.dead > 0 ? 'refused' : 'muted'}>{count(queue.dead)}</span>
                ) : (
                  <span class="muted">–</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <More count={more} of="queue" />
    </Panel>
  )
}

export function SharedSummary({ shared, more }: { shared: readonly SharedRow[]; more: number }) {
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
              <td class="number">
                {row.waiting > 0 ? (
                  count(row.waiting)
                ) : (
                  <span class="muted">{row.unread === undefined ? '0' : '–'}</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <More count={more} of="object" />
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
  if (of.unread !== undefined) return <span class="amber">{of.unread}</span>
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
