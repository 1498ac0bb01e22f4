import { formatDuration, parseDuration } from '../../../limiter/core/duration.js'
import { count, plural, span, windowWords } from '../look/format.js'
import type { WaitingView } from '../server/page-views.js'
import type { HolderView, SharedRow } from '../view.js'
import { addressText } from './address.js'
import { ChangeButton, type Plan } from './change-dialogs.js'
import { type Column, Table } from './table.js'
import { Ago, Facts, Gauge, More, Nothing, Panel } from './widgets.js'

export function WaitingPage({ view }: { view: WaitingView }) {
  if (view.shared.length === 0) {
    return (
      <Panel title="Waiting">
        <Nothing>
          No shared rate and no semaphore is known. They appear here when a process uses one: at once if it is given the
          reporter as <code>observer</code>, else within a minute.
        </Nothing>
      </Panel>
    )
  }
  return (
    <>
      {view.shared.map(row => (
        <Shared key={`${row.kind} ${row.name}`} row={row} now={view.now} />
      ))}
      <More count={view.moreShared} of="object" />
    </>
  )
}

/** What processes wait for, on the first page. */
export function SharedSummary({ shared, more }: { shared: readonly SharedRow[]; more: number }) {
  return (
    <Panel title="Semaphores and rates" side={<a href={addressText({ page: 'waiting' })}>all</a>}>
      <Table
        rows={shared}
        keyOf={({ kind, name }) => `${kind} ${name}`}
        columns={[
          { title: 'Name', kind: 'names', cell: row => <SharedName of={row} /> },
          { title: 'In use', cell: row => <Use of={row} /> },
          {
            title: 'Waiting',
            kind: 'number',
            cell: ({ waiting, unread }) =>
              waiting > 0 ? count(waiting) : <span class="muted">{unread === undefined ? '0' : '–'}</span>,
          },
        ]}
      />
      <More count={more} of="object" />
    </Panel>
  )
}

const KINDS = {
  rate: 'rate',
  budget: 'budget',
  semaphore: '',
  concurrency: 'places',
  bottleneck: 'Bottleneck',
  limiter: 'limiter',
} as const

function SharedName({ of }: { of: SharedRow }) {
  return (
    <>
      <strong>
        <bdi>{of.name}</bdi>
      </strong>
      {KINDS[of.kind] !== '' && <span class="muted"> {KINDS[of.kind]}</span>}
    </>
  )
}

/** '6 of 8' with a bar; '92 of 100 per second' of a rate. */
function Use({ of }: { of: SharedRow }) {
  const { kind, inUse, of: most, intervalMs, mode } = of
  if (of.unread !== undefined) return <span class="amber">{of.unread}</span>
  if (kind === 'limiter') return <span class="muted">waiting lines of processes</span>
  if (kind === 'bottleneck') {
    return (
      <span>
        {count(inUse ?? 0)} running{of.reservoir !== undefined && `, ${count(of.reservoir)} left in the reservoir`}
      </span>
    )
  }
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
      {kind === 'budget' && inUse > most && <span class="amber">, a debt of {count(inUse - most)}</span>}
    </Gauge>
  )
}

function Shared({ row, now }: { row: SharedRow; now: number }) {
  const { kind, name, waiting, firstMs, holders, moreHolders = 0, intervalMs, of } = row
  return (
    <Panel
      title={name}
      heading={<SharedName of={row} />}
      actions={
        kind === 'rate' && of !== undefined && intervalMs !== undefined ? (
          <ChangeButton plan={() => ratePlan(name, of, intervalMs)}>Set the rate…</ChangeButton>
        ) : undefined
      }
    >
      <Facts
        of={[
          ['In use', <Use of={row} />],
          [
            'Waiting',
            <>
              {waiting === 0 ? <span class="muted">{row.unread === undefined ? 'nobody' : '–'}</span> : count(waiting)}
              {waiting > 0 && firstMs !== undefined && <span class="muted">, the first for {span(firstMs)}</span>}
            </>,
          ],
        ]}
      />
      {holders !== undefined && holders.length > 0 && (
        <Holders name={name} holders={holders} more={moreHolders} now={now} />
      )}
    </Panel>
  )
}

function Holders({
  name,
  holders,
  more,
  now,
}: {
  name: string
  holders: readonly HolderView[]
  more: number
  now: number
}) {
  const areLeases = holders.some(({ id }) => id !== undefined)
  const lease: Column<HolderView> = {
    title: 'Lease',
    kind: 'wide',
    cell: ({ id }) => id !== undefined && <code class="key">{id.slice(0, 8)}</code>,
  }
  const ends: Column<HolderView> = {
    title: 'Ends without a renewal',
    kind: 'number wide',
    cell: ({ expiresAt }) => expiresAt !== undefined && `in ${span(Math.max(0, expiresAt - now))}`,
  }
  const columns: Column<HolderView>[] = [
    { title: 'Held by', cell: ({ by }) => <Holder by={by} /> },
    { title: 'Permits', kind: 'number wide', cell: ({ permits }) => count(permits) },
    {
      title: 'Held since',
      kind: 'number',
      cell: ({ since }) => <Ago at={since} now={now} />,
    },
  ]
  return (
    <>
      <Table
        rows={holders}
        keyOf={({ id }, i) => id ?? i}
        columns={areLeases ? [lease, ...columns, ends] : columns}
        acts={
          areLeases
            ? ({ id, permits }) =>
                id !== undefined && <ChangeButton plan={() => releasePlan(name, id, permits)}>Release…</ChangeButton>
            : undefined
        }
      />
      <More count={more} of={areLeases ? 'lease' : 'holder'} />
    </>
  )
}

const UNNAMED = {
  new: 'not reported yet',
  untold: 'not among the longest held, which are reported',
  unknown: 'a process without a reporter',
} as const

function Holder({ by }: Pick<HolderView, 'by'>) {
  if (typeof by === 'string') return <span class="muted">{UNNAMED[by]}</span>
  return (
    <>
      <span class="name">
        <bdi>{by.service}</bdi>
      </span>{' '}
      <span class="muted">
        <bdi>{by.host}</bdi>:{by.pid}
        {by.silent && ', silent'}
      </span>
    </>
  )
}

function releasePlan(name: string, lease: string, permits: number): Plan {
  return {
    title: `End a lease of ${name}`,
    verb: 'Release by force',
    sentence: () => (
      <>
        <strong>{name}</strong>: {plural(permits, 'permit')} of the lease <code class="key">{lease.slice(0, 8)}</code>{' '}
        {permits === 1 ? 'goes' : 'go'} to whoever waits next. Its holder is told that the lease is lost, but may still
        be at work. This cannot be undone.
      </>
    ),
    act: () => ({ act: 'force-release', name, lease }),
  }
}

function ratePlan(name: string, rate: number, intervalMs: number): Plan {
  return {
    title: `Set the rate of ${name}`,
    verb: 'Set the rate',
    fields: [
      { name: 'rate', label: 'Permits', value: String(rate) },
      {
        name: 'interval',
        label: 'In',
        value: formatDuration(intervalMs),
        hint: 'Like 1s, 5m or 1h',
      },
    ],
    problem: ({ rate, interval }) => {
      if (!/^[1-9]\d{0,14}$/.test(rate.trim())) return 'Permits: type a whole number from 1, like 10.'
      try {
        parseDuration(interval.trim())
        return undefined
      } catch {
        return 'In: type a duration, like 1s, 5m or 1h.'
      }
    },
    sentence: values => (
      <>
        <strong>{name}</strong>: now {count(rate)} per {windowWords(intervalMs)}; then{' '}
        <strong>
          {count(Number(values.rate))} per {windowWords(parseDuration(values.interval.trim()))}
        </strong>
        . The next permit of every process follows it, and so does whoever waits.
      </>
    ),
    act: values => ({ act: 'set-rate', name, rate: Number(values.rate), interval: values.interval.trim() }),
  }
}
