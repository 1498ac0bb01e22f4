import { useEffect, useRef, useState } from 'preact/hooks'
import { count, limitWords, rate, when } from '../look/format.js'
import type { LimitRow, LimitsView, Range } from '../view.js'
import { type Address, addressText, RANGES } from './address.js'
import { SmallChart } from './chart.js'
import { ColumnHeads } from './column-heads.js'
import { LimitDetail } from './limit-detail.js'
import { sentenceOf, trafficOf } from './series.js'
import { QueueSummary, SharedSummary } from './summaries.js'
import { Nothing, OwnName, Panel, Share } from './widgets.js'

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
            <RangeChoice range={view.range} address={address} />
          </>
        }
      >
        {rows.length === 0 ? (
          <Nothing>No limiter has decided anything yet.</Nothing>
        ) : (
          <table class="limits">
            <ColumnHeads
              of={[
                ['Limiter'],
                ['Limit', 'policy'],
                ['Allowed and refused per second', 'small-chart'],
                ['Allowed/s', 'number'],
                ['Refused/s', 'number'],
                ['Refused', 'number share'],
              ]}
            />
            <tbody>
              {rows.map(row => (
                <Row key={row.id} row={row} now={view.now} isOpen={open.has(row.id)} toggle={() => toggle(row.id)} />
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

function Row({ row, now, isOpen, toggle }: { row: LimitRow; now: number; isOpen: boolean; toggle: () => void }) {
  const { id, limiter, facts, per, series, live } = row
  const traffic = trafficOf(series)
  const columns = useColumns()
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
            <LimitDetail row={row} now={now} />
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
