import { clock, span, when } from '../look/format.js'
import type { EventsView } from '../server/page-views.js'
import type { EventView } from '../view.js'
import { addressText } from './address.js'
import { Table } from './table.js'
import { By, KeyLink, Moment, More, Nothing, Panel } from './widgets.js'

const KINDS = { outage: 'outage', alert: 'alert', change: 'change', deploy: 'new version' } as const

/** Moments of the last hours need no day. */
const SAME_DAY_MS = 43_200_000

/** What has happened in the last day: the answer to "what was at 02:40?". */
export function EventsPage({ view: { events, more, now } }: { view: EventsView }) {
  return (
    <Panel title="Events" side="of the last 24 hours">
      {events.length === 0 ? (
        <Nothing>
          Nothing has happened in a day: no alert, no outage, no change, no new version, as far as processes with a
          reporter tell.
        </Nothing>
      ) : (
        <Table
          of="events"
          rows={events}
          keyOf={({ id }) => id}
          columns={[
            { title: 'When', kind: 'moments', cell: event => <When event={event} now={now} /> },
            { title: 'Lasted', kind: 'wide nowrap', cell: event => <Lasted event={event} now={now} /> },
            { title: 'What', kind: 'names', cell: event => <What event={event} /> },
          ]}
        />
      )}
      <More count={more} of="event" />
    </Panel>
  )
}

function When({ event: { at, until, lasts }, now }: { event: EventView; now: number }) {
  return (
    <>
      <Moment at={at}>{now - at < SAME_DAY_MS ? clock(at, true) : when(at, now)}</Moment>{' '}
      {(until !== undefined || lasts) && <span class="muted">to {lasts ? 'now' : clock(until ?? at, true)}</span>}
    </>
  )
}

function Lasted({ event: { kind, at, until, lasts }, now }: { event: EventView; now: number }) {
  if (kind === 'change' || kind === 'deploy') return <span class="muted">{span(Math.max(0, now - at))} ago</span>
  return <>{span(Math.max(0, (lasts ? now : (until ?? at)) - at))}</>
}

function What({ event: { kind, title, text, key, user, page } }: { event: EventView }) {
  return (
    <>
      <span class="tag plain first">{KINDS[kind]}</span>{' '}
      {page === undefined ? (
        <bdi>{title}</bdi>
      ) : (
        <a class="plain" href={addressText({ page })}>
          <bdi>{title}</bdi>
        </a>
      )}
      {key !== undefined && (
        <>
          {' '}
          for <KeyLink of={key} />
        </>
      )}
      <span class="muted">
        <By of={user} />
        {text !== undefined && (
          <>
            . <bdi>{text}</bdi>
          </>
        )}
      </span>
    </>
  )
}
