/** The content of an opened row of a limit: the large chart, the keys that are refused and that ask most, the sources of decisions, actions. */
import { useContext } from 'preact/hooks'
import { clock, limitWords, percent, plural, rate, span, when } from '../look/format.js'
import type { KeyRate, LimitRow } from '../view.js'
import { ActButton, ActingContext } from './acting.js'
import { LargeChart } from './chart.js'
import { blockPlan, clearPlan, limitPlan } from './plans.js'
import { sentenceOf, trafficOf } from './series.js'
import { KeyLink, OwnName } from './widgets.js'

const SOURCES = [
  ['redis', 'Redis'],
  ['lease', 'leases'],
  ['memory', 'memory'],
  ['remembered', 'remembered denials'],
  ['fallback', 'fallback'],
] as const

export function LimitDetail({ row, now }: { row: LimitRow; now: number }) {
  const { processes, noLive, may } = useContext(ActingContext)
  const { limiter, facts, per, open, live, policy } = row
  const traffic = trafficOf(row.series)
  const sources = SOURCES.filter(([source]) => (open?.sources[source] ?? 0) > 0)
  const [worst] = open?.mostRefused ?? []
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
        <Callers title="refused most" rows={open?.mostRefused} empty="Nobody is refused." kind="of-refused" />
        <Callers title="asks most" rows={open?.mostAsking} empty="Nobody asks." kind="" />
        {live !== undefined && (
          <p class="muted">
            Live: {live.words}
            {live.until !== undefined && `, until ${when(live.until, now)} (${span(live.until - now)} left)`}
            {live.by !== undefined && (
              <>
                , by <bdi>{live.by}</bdi>
              </>
            )}
            . Default: {live.default}.
          </p>
        )}
        <div class="actions">
          {worst !== undefined && (
            <ActButton kind="first" plan={() => blockPlan(limiter, worst.key, processes)}>
              <span>
                Block{' '}
                <span class="key">
                  <bdi>{worst.key.text}</bdi>
                </span>
                …
              </span>
            </ActButton>
          )}
          {policy !== undefined && noLive === undefined && (
            <ActButton plan={() => limitPlan(limiter, policy, processes)}>Change this limit…</ActButton>
          )}
          {row.changeable && noLive === undefined && live !== undefined && (
            <ActButton plan={() => clearPlan(limiter, live, processes)}>Take back…</ActButton>
          )}
        </div>
        {may && !row.changeable && (
          <p class="muted small">
            {noLive ??
              'This limit is not live: give the limiter `live.policy(…)` of spillway/live, under its own name, to change it here.'}
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
  const shown = rows?.slice(0, 3)
  return (
    <div class="callers">
      <h3 class="muted">{title}</h3>
      {shown === undefined || shown.length === 0 ? (
        <p class="muted">{shown === undefined ? '…' : empty}</p>
      ) : (
        <ul>
          {shown.map(({ key, perSecond, share }) => (
            <li key={key.ref}>
              <KeyLink of={key} />
              <span class="number">{rate(perSecond)}/s</span>
              <span class={`bar ${kind}`} aria-hidden="true">
                <i style={{ width: `${Math.min(100, share * 100)}%` }} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
