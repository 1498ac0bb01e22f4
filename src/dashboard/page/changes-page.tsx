import { when } from '../look/format.js'
import type { ChangesView } from '../server/page-views.js'
import type { Act, ChangeView } from '../view.js'
import { ActButton, type Plan } from './change-dialogs.js'
import { ColumnHeads } from './column-heads.js'
import { KeyLink, Moment, Nothing, Panel } from './widgets.js'

export function ChangesPage({ view }: { view: ChangesView }) {
  return (
    <Panel title="Changes" side="made here, and by LivePolicies">
      {view.changes.length === 0 ? (
        <Nothing>Nothing was changed yet.</Nothing>
      ) : (
        <table class="changes">
          <ColumnHeads
            of={[['When'], ['Who', 'wide'], ['What', 'names'], ['Before', 'wide'], ['After', 'names']]}
            acts
          />
          <tbody>
            {view.changes.map(change => (
              <Change key={change.id} change={change} now={view.now} />
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  )
}

function Change({ change, now }: { change: ChangeView; now: number }) {
  const { at, user, what, subject, key, before, after, until, undo } = change
  return (
    <tr>
      <td class="nowrap">
        <Moment at={at}>{when(at, now)}</Moment>
      </td>
      <td class="wide">{user === undefined ? <span class="muted">not told</span> : <bdi>{user}</bdi>}</td>
      <td>
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
      </td>
      <td class="wide">{before ?? <span class="muted">–</span>}</td>
      <td>
        {after ?? (until === undefined ? <span class="muted">–</span> : '')}
        {until !== undefined && (
          <span class="muted">
            {after !== undefined && ', '}until <Moment at={until}>{when(until, now)}</Moment>
            {until < now && ' (over)'}
          </span>
        )}
      </td>
      <td class="number">
        {undo !== undefined && <ActButton plan={() => undoPlan(change, undo)}>Take back…</ActButton>}
      </td>
    </tr>
  )
}

function undoPlan({ what, subject, key, before }: ChangeView, undo: Act): Plan {
  return {
    title: 'Take a change back',
    verb: 'Take back',
    sentence: () => (
      <>
        <strong>{subject}</strong>
        {key !== undefined && (
          <>
            {' '}
            for{' '}
            <code class="key">
              <bdi>{key.text}</bdi>
            </code>
          </>
        )}
        : “{what}” is taken back
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
