import { useContext, useEffect, useRef, useState } from 'preact/hooks'
import { clock, count, limitWords, percent, plural, rate, span, when } from '../look/format.js'
import type { LimitRow, LimitsView } from '../server/page-views.js'
import type { KeyRate, Mark, Range } from '../view.js'
import { type Address, addressText, goInPlace, RANGES } from './address.js'
import { ActingContext, blockPlan, ChangeButton, clearPlan, limitPlan, unblockPlan } from './change-dialogs.js'
import { LargeChart, SmallChart, sentenceOf, trafficOf } from './chart.js'
import { QueueSummary } from './queues-page.js'
import { ColumnHeads } from './table.js'
import { SharedSummary } from './waiting-page.js'
import { Bar, By, KeyLink, Nothing, OwnName, Panel, Share } from './widgets.js'

const SOURCES = [
  ['redis', 'Redis'],
  ['elsewhere', 'Redis, another prefix'],
  ['postgres', 'PostgreSQL'],
  ['sqlite', 'SQLite'],
  ['own', 'its own store'],
  ['lease', 'leases'],
  ['memory', 'memory'],
  ['remembered', 'remembered denials'],
  ['fallback', 'fallback'],
] as const

const SHOWN_CALLERS = 3
/** Requests are counted, and none of the keys that processes tell of belongs to this limit. */
const UNTOLD = 'Not told: each process tells of its 100 busiest keys.'

/**
 * The content of an opened row of a limit: the large chart, the keys that are refused and that ask most, the sources of
 * decisions, actions.
 */
function LimitDetail({ row, marks, now }: { row: LimitRow; marks: readonly Mark[]; now: number }) {
  const { processes, noLive, may } = useContext(ActingContext)
  const { limiter, facts, per, open, live, policy } = row
  const traffic = trafficOf(row.series, marks)
  const sources = SOURCES.filter(([source]) => (open?.sources[source] ?? 0) > 0)
  const [worst] = open?.mostRefused ?? []
  const isBlocked = worst?.key.blockedUntil !== undefined
  const nowWords = limitWords(facts)
  return (
    <div class="detail-body">
      <p class="only-narrow muted">
        {nowWords}
        {per !== undefined && `, ${per}`}
        {row.limit !== limiter && <OwnName of={row.limit} />}
      </p>
      <div class="main-chart">
        <p class="muted">per second</p>
        <LargeChart
          traffic={traffic}
          label={`${limiter}: allowed and refused per second`}
          sentence={sentenceOf(traffic)}
        />
        <div class="legend muted">
          <span>
            <i class="swatch allowed" />
            allowed
          </span>
          <span>
            <i class="swatch refused" />
            refused
          </span>
          {marks.length > 0 && (
            <span>
              <i class="swatch tick" />
              <a href={addressText({ page: 'events' })}>{plural(marks.length, 'event')}</a>
            </span>
          )}
          {sources.length > 0 && (
            <span class="sources">
              decided by:{' '}
              {sources.map(([source, name], i) => (
                <span key={source} class={source === 'fallback' ? 'amber' : ''}>
                  {i > 0 && ', '}
                  {name} {percent(open?.sources[source] ?? 0)}
                </span>
              ))}
            </span>
          )}
        </div>
        {open?.breaker !== undefined && (
          <p class="amber">
            Breaker open in {plural(open.breaker.processes, 'process', 'processes')} since {clock(open.breaker.since)}:{' '}
            {open.breaker.reason}
          </p>
        )}
      </div>
      <div class="who">
        <Callers
          title="refused most"
          rows={open?.mostRefused}
          empty={row.refused > 0 ? UNTOLD : 'Nobody is refused.'}
          kind="of-refused"
        />
        <Callers
          title="asks most"
          rows={open?.mostAsking}
          empty={row.allowed + row.refused > 0 ? UNTOLD : 'Nobody asks.'}
          kind=""
        />
        {live !== undefined && (
          <p class="muted">
            Live: {live.words}
            {live.until !== undefined && `, until ${when(live.until, now)} (${span(live.until - now)} left)`}
            <By of={live.by} />. Default: {live.default}.
          </p>
        )}
        <div class="actions">
          {worst !== undefined && (
            <ChangeButton
              kind="first"
              plan={() => (isBlocked ? unblockPlan : blockPlan)(limiter, worst.key, processes)}
            >
              <span>
                {isBlocked ? 'Unblock' : 'Block'}{' '}
                <span class="key">
                  <bdi>{worst.key.text}</bdi>
                </span>
                …
              </span>
            </ChangeButton>
          )}
          {policy !== undefined && noLive === undefined && (
            <ChangeButton plan={() => limitPlan(limiter, policy, processes)}>Change this limit…</ChangeButton>
          )}
          {row.changeable && noLive === undefined && live !== undefined && (
            <ChangeButton plan={() => clearPlan(limiter, live, processes)}>Take back…</ChangeButton>
          )}
        </div>
        {may && !row.changeable && (
          <p class="muted small">
            {noLive ??
              'This limit is not live: give the limiter `live.policy(…)` of spillway/live, under its own ' +
                'name, to change it here.'}
          </p>
        )}
        {may && row.changeable && noLive !== undefined && <p class="muted small">{noLive}</p>}
      </div>
    </div>
  )
}

function Callers({
  title,
  rows,
  empty,
  kind,
}: {
  title: string
  rows: readonly KeyRate[] | undefined
  empty: string
  kind: 'of-refused' | ''
}) {
  const shown = rows?.slice(0, SHOWN_CALLERS)
  return (
    <div class="callers">
      <h3 class="muted">{title}</h3>
      {shown === undefined || shown.length === 0 ? (
        <p class="muted">{shown === undefined ? '…' : empty}</p>
      ) : (
        <ul>
          {shown.map(({ key, perSecond, share }) => (
            <li key={key.ref}>
              <span>
                <KeyLink of={key} />
                {key.blockedUntil !== undefined && (
                  <span class="tag plain">blocked until {clock(key.blockedUntil)}</span>
                )}
              </span>
              <span class="number">{rate(perSecond)}/s</span>
              <Bar share={share} kind={kind} />
            </li>
          ))}
        </ul>
      )}
      {rows !== undefined && rows.length > SHOWN_CALLERS && (
        <p class="small">
          <a href={addressText({ page: 'keys' })}>and {count(rows.length - SHOWN_CALLERS)} more</a>
        </p>
      )}
    </div>
  )
}

export function LimitsPage({
  view,
  address,
  open,
  toggle,
  more,
}: {
  view: LimitsView
  address: Address
  open: ReadonlySet<string>
  toggle: (id: string) => void
  more: () => void
}) {
  const { rows, isSorted, sort } = useSteadyOrder(view.rows)
  // Once for all rows: there may be a thousand.
  const columns = useColumns()
  return (
    <>
      <Panel
        title="Limits"
        side={
          <>
            {!isSorted && (
              <button type="button" class="link" onClick={sort}>
                worst first again
              </button>
            )}
            <input
              class="filter"
              type="search"
              aria-label="Only limits whose names hold"
              placeholder="Filter by name…"
              value={address.text ?? ''}
              onInput={event => goInPlace({ ...address, page: 'limits', text: event.currentTarget.value })}
              spellcheck={false}
              autocomplete="off"
            />
            <RangeChoice range={view.range} address={address} />
          </>
        }
      >
        {rows.length === 0 ? (
          <Nothing>
            {address.text === undefined ? 'No limiter has decided anything yet.' : 'No limit has such a name.'}
          </Nothing>
        ) : (
          <table class="limits">
            <ColumnHeads
              of={[
                { title: 'Limiter' },
                { title: 'Limit', kind: 'policy' },
                { title: 'Allowed and refused per second', kind: 'small-chart' },
                { title: 'Allowed/s', kind: 'number' },
                { title: 'Refused/s', kind: 'number' },
                { title: 'Refused', kind: 'number share' },
              ]}
            />
            <tbody>
              {rows.map(row => (
                <Row
                  key={row.id}
                  row={row}
                  marks={view.marks}
                  now={view.now}
                  columns={columns}
                  isOpen={open.has(row.id)}
                  toggle={() => toggle(row.id)}
                />
              ))}
            </tbody>
          </table>
        )}
        {view.total > rows.length && (
          <div class="body">
            <button type="button" class="button" onClick={more}>
              Show all {count(view.total)} limits
            </button>
          </div>
        )}
      </Panel>
      {(view.queues.length > 0 || view.shared.length > 0) && (
        <div class="panels">
          {view.queues.length > 0 && <QueueSummary queues={view.queues} more={view.moreQueues} />}
          {view.shared.length > 0 && <SharedSummary shared={view.shared} more={view.moreShared} />}
        </div>
      )}
    </>
  )
}

/** How far back the charts go; in the address, so that a view can be sent to a colleague. */
function RangeChoice({ range, address }: { range: Range; address: Address }) {
  return (
    <nav class="ranges" aria-label="Time range">
      {RANGES.map(([each, words]) => (
        <a
          key={each}
          href={addressText({ ...address, page: 'limits', range: each })}
          aria-current={each === range ? 'true' : undefined}
        >
          {words}
        </a>
      ))}
    </nav>
  )
}

function Row({
  row,
  marks,
  now,
  columns,
  isOpen,
  toggle,
}: {
  row: LimitRow
  marks: readonly Mark[]
  now: number
  columns: number
  isOpen: boolean
  toggle: () => void
}) {
  const { id, limiter, facts, per, series, live } = row
  const traffic = trafficOf(series, marks)
  const detail = `detail-${id}`
  return (
    <>
      <tr class={isOpen ? 'row open' : 'row'} onClick={event => isPlain(event) && toggle()}>
        <td>
          <button type="button" class="name unfold" aria-expanded={isOpen} aria-controls={detail} onClick={toggle}>
            <bdi>{limiter}</bdi>
          </button>
        </td>
        <td class="policy">
          <span class="muted">
            {limitWords(facts)}
            {per !== undefined && `, ${per}`}
          </span>
          {row.limit !== limiter && <OwnName of={row.limit} />}
          {live !== undefined && (
            <span class="tag">live{live.until !== undefined && ` until ${when(live.until, now)}`}</span>
          )}
          {row.replaced && <span class="tag">not in force any more</span>}
          {row.shadow > 0 && <span class="tag">shadow</span>}
        </td>
        <td class="small-chart">
          <SmallChart traffic={traffic} sentence={sentenceOf(traffic)} />
        </td>
        <td class="number">{rate(row.allowed)}</td>
        <td class="number">
          <span class={row.refused > 0 ? 'refused' : 'muted'}>{rate(row.refused)}</span>
        </td>
        <td class="number share">
          <Share of={row.share} />
        </td>
      </tr>
      {isOpen && (
        <tr class="detail" id={detail}>
          <td colSpan={columns}>
            <LimitDetail row={row} marks={marks} now={now} />
          </td>
        </tr>
      )}
    </>
  )
}

/** The whole row opens, but for what can be pressed by itself, and for text that is being selected. */
function isPlain(event: MouseEvent): boolean {
  const target = event.target as Element
  return target.closest('a, button') === null && String(getSelection() ?? '') === ''
}

/** How many columns there are: page.css takes them away at these widths. */
const WIDTHS = [1080, 760, 520].map(width => matchMedia(`(max-width: ${width}px)`))

function useColumns(): number {
  const columns = () => 6 - WIDTHS.filter(width => width.matches).length
  const [count, setCount] = useState(columns())
  useEffect(() => {
    const change = () => setCount(columns())
    for (const width of WIDTHS) width.addEventListener('change', change)
    return () => {
      for (const width of WIDTHS) width.removeEventListener('change', change)
    }
  }, [])
  return count
}

/** Rows keep their places while their numbers change; whoever wants puts the worst first again. */
function useSteadyOrder(rows: readonly LimitRow[]) {
  const order = useRef<string[]>([])
  const [, redraw] = useState(0)
  const byId = new Map(rows.map(row => [row.id, row]))
  order.current = order.current.filter(id => byId.has(id))
  const placed = new Set(order.current)
  for (const { id } of rows) if (!placed.has(id)) order.current.push(id)
  const sorted = rows.map(({ id }) => id)
  const isSorted = order.current[0] === sorted[0]
  const sort = () => {
    order.current = sorted
    redraw(value => value + 1)
  }
  return { rows: order.current.map(id => byId.get(id) as LimitRow), isSorted, sort }
}
