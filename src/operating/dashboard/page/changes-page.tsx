import { when } from '../look/format.js'
import type { ChangesView } from '../server/page-views.js'
import type { ChangeRequest, ChangeView } from '../view.js'
import { ChangeButton, type Plan, Whom } from './change-dialogs.js'
import { Table } from './table.js'
import { KeyLink, Moment, Nothing, Panel } from './widgets.js'

export function ChangesPage({ view }: { view: ChangesView }) {
  const { now } = view
  return (
    <Panel title="Changes" side="made here, and by LivePolicies">
      {view.changes.length === 0 ? (
        <Nothing>Nothing was changed yet.</Nothing>
      ) : (
        <Table
          of="changes"
          rows={view.changes}
          keyOf={({ id }) => id}
          columns={[
            {
              title: 'When',
              kind: 'nowrap',
              cell: ({ at }) => <Moment at={at}>{when(at, now)}</Moment>,
            },
            {
              title: 'Who',
              kind: 'wide',
              cell: ({ user }) => (user === undefined ? <span class="muted">not told</span> : <bdi>{user}</bdi>),
            },
            {
              title: 'What',
              kind: 'names',
              cell: ({ what, subject, key }) => (
                <>
                  {what}:{' '}
                  <strong>
                    <bdi>{subject}</bdi>
                  </strong>
                  {key !== undefined && (
                    <>
                      {' '}
                      for <KeyLink of={key} />
                    </>
                  )}
                </>
              ),
            },
            { title: 'Before', kind: 'wide', cell: ({ before }) => before ?? <span class="muted">–</span> },
            { title: 'After', kind: 'names', cell: change => <After change={change} now={now} /> },
          ]}
          acts={change =>
            change.undo !== undefined && (
              <ChangeButton plan={() => undoPlan(change, change.undo as ChangeRequest)}>Take back…</ChangeButton>
            )
          }
        />
      )}
    </Panel>
  )
}

function After({ change: { after, until }, now }: { change: ChangeView; now: number }) {
  return (
    <>
      {after ?? (until === undefined ? <span class="muted">–</span> : '')}
      {until !== undefined && (
        <span class="muted">
          {after !== undefined && ', '}until <Moment at={until}>{when(until, now)}</Moment>
          {until < now && ' (over)'}
        </span>
      )}
    </>
  )
}

function undoPlan({ what, subject, key, before }: ChangeView, undo: ChangeRequest): Plan {
  return {
    title: 'Take a change back',
    verb: 'Take back',
    sentence: () => (
      <>
        <Whom limiter={subject} of={key} />: “{what}” is taken back
        {before !== undefined && (
          <>
            , so that <strong>{before}</strong> holds again
          </>
        )}
        . Processes follow within a second.
      </>
    ),
    act: () => undo,
  }
}
