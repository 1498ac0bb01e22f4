import { useContext } from 'preact/hooks'
import { count, limitWords, plural, rate, span, when } from '../look/format.js'
import type { KeyFound, KeyLimiterView, KeysView } from '../server/page-views.js'
import type { KeyRate } from '../view.js'
import {
  ActingContext,
  blockPlan,
  ChangeButton,
  clearPlan,
  limitPlan,
  resetPlan,
  showPlan,
  unblockPlan,
} from './change-dialogs.js'
import { type Column, Table } from './table.js'
import { type BarKind, By, ExactText, Gauge, KeyLink, Moment, More, Nothing, OwnName, Panel } from './widgets.js'

export function KeysPage({ view, sought }: { view: KeysView; sought: boolean }) {
  return (
    <>
      {sought && view.found !== undefined && <Found found={view.found} view={view} />}
      {sought && view.found === undefined && view.failing === undefined && (
        <Panel title="Key">
          <Nothing>This key is not among those that are shown any more. Type it above to look it up.</Nothing>
        </Panel>
      )}
      {!sought && (
        <div class="panels">
          <Ranking
            title="Refused most"
            rows={view.mostRefused}
            empty={view.status.refusedShare > 0 ? 'No process tells of them.' : 'Nobody is refused.'}
            kind="of-refused"
          />
          <Ranking
            title="Asking most"
            rows={view.mostAsking}
            empty={view.status.perSecond > 0 ? 'No process tells of them.' : 'Nobody asks.'}
            kind=""
          />
        </div>
      )}
      {(view.blocks.length > 0 || !sought) && <Blocks view={view} />}
      {!sought && view.ownLimits.length > 0 && <OwnLimits view={view} />}
    </>
  )
}

function Found({ found, view }: { found: KeyFound; view: KeysView }) {
  const { key, as, limiters, asked, unasked, unread } = found
  return (
    <>
      <h2 class="looked-up">
        <span class="muted">Key</span> <ExactText text={key.text} />
        {as !== undefined && (
          <span class="muted">
            {' '}
            counted as <ExactText text={as} />
          </span>
        )}
        {key.text.includes('••') || key.text.startsWith('#') ? (
          <ChangeButton plan={() => showPlan(key)}>Show key…</ChangeButton>
        ) : null}
      </h2>
      {unread > 0 && (
        <p class="amber">{plural(unread, 'limiter')} could not be read: of another version, or Redis was slow.</p>
      )}
      {unasked > 0 && (
        <p class="amber">
          {count(asked)} of {count(asked + unasked)} limiters were asked: those whose reports name the key, then those
          that refuse most.
        </p>
      )}
      {limiters.length === 0 && (
        <Panel title="Not found">
          <div class="body text">
            <p>
              {unasked > 0 ? 'None of these limiters knows this key' : 'No limiter knows this key'}: it has spent
              nothing, is not blocked and has no limit of its own.
              {asked === 0 && ' No limiter that counts in Redis is known.'}
              {asked > 0 && unasked === 0 && (
                <>
                  {' '}
                  Asked:{' '}
                  {view.limiters.map((name, i) => (
                    <>
                      {i > 0 && ', '}
                      <bdi>{name}</bdi>
                    </>
                  ))}
                  .
                </>
              )}
            </p>
            <p class="muted">
              A key is spelled as the service gives it, upper and lower case apart: an address like{' '}
              <code>203.0.113.9</code>, a network like <code>2001:db8:0:ff00::/56</code>, or what the option{' '}
              <code>key</code> returns, like <code>user:42</code>.
            </p>
          </div>
        </Panel>
      )}
      {limiters.map(limiter => (
        <KeyLimiter key={limiter.limiter} of={limiter} found={found} now={view.now} />
      ))}
    </>
  )
}

function KeyLimiter({ of, found, now }: { of: KeyLimiterView; found: KeyFound; now: number }) {
  const { processes, noLive } = useContext(ActingContext)
  const { key } = found
  const { limiter, limits, live, blockedUntil } = of
  return (
    <Panel title={limiter} side={live !== undefined ? `its own limit: ${live.words}` : undefined}>
      {blockedUntil !== undefined && (
        <p class="blocked refused">
          Blocked until <Moment at={blockedUntil}>{when(blockedUntil, now)}</Moment>,{' '}
          {span(Math.max(0, blockedUntil - now))} left
          <By of={of.blockedBy} />.
        </p>
      )}
      <Table
        rows={limits}
        keyOf={({ id }) => id}
        columns={[
          {
            title: 'Limit',
            cell: limit => (
              <>
                {limitWords(limit.facts)}
                {limit.per !== undefined && <span class="muted">, {limit.per}</span>}
                {limit.limit !== limiter && <OwnName of={limit.limit} />}
              </>
            ),
          },
          {
            title: 'Left',
            cell: ({ remaining, most }) => (
              <Gauge share={most > 0 ? remaining / most : 0} kind={remaining === 0 ? 'of-refused' : ''}>
                {count(remaining)} of {count(most)}
              </Gauge>
            ),
          },
          {
            title: 'Next request',
            kind: 'number',
            cell: ({ retryAfterMs }) =>
              retryAfterMs > 0 ? <span class="refused">{inWords(retryAfterMs)}</span> : 'now',
          },
          {
            title: 'Whole again',
            kind: 'number',
            cell: ({ resetAfterMs }) => (resetAfterMs > 0 ? inWords(resetAfterMs) : <span class="muted">now</span>),
          },
        ]}
      />
      <div class="body foot">
        <div class="actions">
          <ChangeButton plan={() => resetPlan(limiter, key, processes)}>Reset…</ChangeButton>
          {blockedUntil === undefined ? (
            <ChangeButton plan={() => blockPlan(limiter, key, processes)}>Block…</ChangeButton>
          ) : (
            <ChangeButton plan={() => unblockPlan(limiter, key, processes)}>Unblock…</ChangeButton>
          )}
          {of.changeable && noLive === undefined && (
            <ChangeButton plan={() => limitPlan(limiter, live?.policy ?? of.policy, processes, key)}>
              Give its own limit…
            </ChangeButton>
          )}
          {of.changeable && live !== undefined && noLive === undefined && (
            <ChangeButton plan={() => clearPlan(limiter, live, processes, key)}>Take back its own limit…</ChangeButton>
          )}
        </div>
        {live !== undefined && (
          <p class="muted">
            Its own limit holds {live.until === undefined ? 'until it is changed' : `until ${when(live.until, now)}`}
            <By of={live.by} verb=", given by" />. Others: {live.default}.
          </p>
        )}
      </div>
    </Panel>
  )
}

function inWords(ms: number): string {
  return ms >= Number.MAX_SAFE_INTEGER ? 'never' : `in ${span(ms)}`
}

type Who = Pick<KeyRate, 'key' | 'limiter'>

const keyOfRow = ({ limiter, key }: Who) => `${limiter} ${key.ref}`

const WHO: ReadonlyArray<Column<Who>> = [
  { title: 'Key', kind: 'names', cell: ({ key }) => <KeyLink of={key} /> },
  { title: 'Limiter', kind: 'names', cell: ({ limiter }) => <bdi>{limiter}</bdi> },
]

function Ranking({
  title,
  rows,
  empty,
  kind,
}: {
  title: string
  rows: readonly KeyRate[]
  empty: string
  kind: BarKind
}) {
  return (
    <Panel title={title}>
      {rows.length === 0 ? (
        <Nothing>{empty}</Nothing>
      ) : (
        <Table
          rows={rows}
          keyOf={keyOfRow}
          columns={[
            ...WHO,
            { title: 'Per second', kind: 'number', cell: ({ perSecond }) => rate(perSecond) },
            { title: 'Share', kind: 'wide share-bar', cell: ({ share }) => <Gauge share={share} kind={kind} /> },
          ]}
        />
      )}
    </Panel>
  )
}

function Blocks({ view }: { view: KeysView }) {
  const { processes, may } = useContext(ActingContext)
  return (
    <Panel title="Blocked now">
      {view.blocks.length === 0 ? (
        <Nothing>Nobody is blocked.</Nothing>
      ) : (
        <Table
          rows={view.blocks}
          keyOf={keyOfRow}
          columns={[
            ...WHO,
            {
              title: 'By',
              kind: 'wide',
              cell: ({ by }) => (by === undefined ? <span class="muted">the service</span> : <bdi>{by}</bdi>),
            },
            {
              title: 'Left',
              kind: 'number',
              cell: ({ until }) => <Moment at={until}>{span(Math.max(0, until - view.now))}</Moment>,
            },
          ]}
          acts={
            may
              ? ({ limiter, key }) => (
                  <ChangeButton plan={() => unblockPlan(limiter, key, processes)}>Unblock…</ChangeButton>
                )
              : undefined
          }
        />
      )}
      <More count={view.moreBlocks} of="blocked key" />
      {view.unlisted > 0 && (
        <p class="body muted">Not asked, because there are so many: {plural(view.unlisted, 'limiter')}.</p>
      )}
    </Panel>
  )
}

/** Keys with limits of their own: all that were set and are in force. */
function OwnLimits({ view: { ownLimits, moreOwnLimits, now } }: { view: KeysView }) {
  return (
    <Panel title="Limits of their own" side="set here, and by LivePolicies">
      <Table
        rows={ownLimits}
        keyOf={keyOfRow}
        columns={[
          {
            title: 'Key',
            kind: 'names',
            cell: ({ key, limiter }) => (
              <>
                <KeyLink of={key} />
                <span class="only-narrow muted">
                  <bdi>{limiter}</bdi>
                </span>
              </>
            ),
          },
          { title: 'Limiter', kind: 'names wide', cell: ({ limiter }) => <bdi>{limiter}</bdi> },
          { title: 'Limits', kind: 'names', cell: ({ policy }) => <ExactText text={policy} /> },
          {
            title: 'Until',
            cell: ({ until }) =>
              until === undefined ? (
                <span class="muted">it is changed</span>
              ) : (
                <Moment at={until}>{when(until, now)}</Moment>
              ),
          },
          {
            title: 'Given by',
            kind: 'wide',
            cell: ({ by, at }) => (
              <>
                {by === undefined ? <span class="muted">not told</span> : <bdi>{by}</bdi>}
                <span class="muted">, {when(at, now)}</span>
              </>
            ),
          },
        ]}
      />
      <More count={moreOwnLimits} of="key" />
    </Panel>
  )
}
