import { clock, count, latency, plural, rate, span } from '../look/format.js'
import type { DeadView, QueuesView } from '../server/page-views.js'
import type { QueueRow } from '../view.js'
import { addressText } from './address.js'
import { ChangeButton, type Plan } from './change-dialogs.js'
import { Table } from './table.js'
import { Ago, ExactText, Facts, More, Nothing, Panel } from './widgets.js'

export function QueuesPage({ view }: { view: QueuesView }) {
  if (view.queues.length === 0) {
    return (
      <Panel title="Queues">
        <Nothing>
          No queue is known. A <code>DelayQueue</code> appears here when a process uses one: at once if it is given the
          reporter as <code>observer</code>, else within a minute.
        </Nothing>
      </Panel>
    )
  }
  return (
    <>
      {view.queues.map(queue => (
        <Queue key={queue.name} queue={queue} now={view.now} />
      ))}
      <More count={view.moreQueues} of="queue" />
    </>
  )
}

/** The queues on the first page. */
export function QueueSummary({ queues, more }: { queues: readonly QueueRow[]; more: number }) {
  const href = addressText({ page: 'queues' })
  return (
    <Panel title="Queues" side={<a href={href}>all</a>}>
      <Table
        rows={queues}
        keyOf={({ name }) => name}
        columns={[
          {
            title: 'Queue',
            kind: 'names',
            cell: queue => (
              <>
                <a class="name plain" href={href}>
                  <bdi>{queue.name}</bdi>
                </a>
                {queue.unread === undefined && queue.paused && <span class="tag amber">paused</span>}
                {queue.unread !== undefined && <span class="tag amber">{queue.unread}</span>}
              </>
            ),
          },
          {
            title: 'Waiting',
            kind: 'number',
            cell: queue =>
              queue.unread === undefined ? count(queue.ready + queue.delayed) : <span class="muted">–</span>,
          },
          {
            title: 'Late, p99',
            kind: 'number wide',
            cell: ({ late99 }) => (late99 === undefined ? <span class="muted">–</span> : latency(late99)),
          },
          {
            title: 'Dead',
            kind: 'number',
            cell: queue =>
              queue.unread === undefined ? (
                <span class={queue.dead > 0 ? 'refused' : 'muted'}>{count(queue.dead)}</span>
              ) : (
                <span class="muted">–</span>
              ),
          },
        ]}
      />
      <More count={more} of="queue" />
    </Panel>
  )
}

function Queue({ queue, now }: { queue: QueuesView['queues'][number]; now: number }) {
  if (queue.unread !== undefined) {
    return (
      <Panel title={queue.name}>
        <p class="body amber">This queue {queue.unread}.</p>
      </Panel>
    )
  }
  const { name, ready, delayed, unacked, dead, nextDueAt, paused, late50, late99, attempts, letters } = queue
  return (
    <Panel
      title={name}
      heading={
        <>
          <bdi>{name}</bdi>
          {paused && <span class="tag amber">paused</span>}
        </>
      }
      actions={
        <>
          {dead > 0 && <ChangeButton plan={() => redrivePlan(name, dead)}>Redrive all…</ChangeButton>}
          <ChangeButton plan={() => pausePlan(name, !paused)}>{paused ? 'Resume…' : 'Pause…'}</ChangeButton>
        </>
      }
    >
      <Facts
        of={[
          ['Due', count(ready)],
          [
            'Later',
            <>
              {count(delayed)}
              {nextDueAt !== null && (
                <span class="muted">, the next {nextDueAt <= now ? 'now' : `in ${span(nextDueAt - now)}`}</span>
              )}
            </>,
          ],
          ['Being handled', count(unacked)],
          [
            'Late, p50 and p99',
            late50 === undefined || late99 === undefined ? (
              <span class="muted">nothing delivered lately</span>
            ) : (
              `${latency(late50)}, ${latency(late99)}`
            ),
          ],
          ['Attempts', attempts === undefined ? <span class="muted">–</span> : rate(attempts)],
          ['Dead', count(dead), dead > 0 ? 'refused' : 'muted'],
        ]}
      />
      {letters.length > 0 && <Letters name={name} letters={letters} more={dead - letters.length} now={now} />}
    </Panel>
  )
}

function Letters({
  name,
  letters,
  more,
  now,
}: {
  name: string
  letters: readonly DeadView[]
  more: number
  now: number
}) {
  return (
    <>
      <Table
        of="letters"
        rows={letters}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Dead letter', kind: 'names', cell: letter => <Letter of={letter} /> },
          { title: 'Attempts', kind: 'number wide', cell: ({ attempts }) => count(attempts) },
          { title: 'Died', kind: 'number', cell: ({ diedAt }) => <Ago at={diedAt} now={now} /> },
        ]}
        acts={({ id }) => <ChangeButton plan={() => redrivePlan(name, 1, id)}>Redrive…</ChangeButton>}
      />
      <More count={more} of="dead letter" />
    </>
  )
}

function Letter({ of: { id, reason, diedAt, payload } }: { of: DeadView }) {
  return (
    <details>
      <summary>
        <bdi>{reason === '' ? 'no reason was given' : reason}</bdi>
      </summary>
      <p class="muted">
        id <ExactText text={id} />, died at {clock(diedAt, true)}
      </p>
      {payload === undefined ? (
        <p class="muted">Its payload is shown only with the option keys: 'plain'.</p>
      ) : (
        <pre>
          <code>{payload}</code>
        </pre>
      )}
    </details>
  )
}

function redrivePlan(name: string, dead: number, id?: string): Plan {
  return {
    title: id === undefined ? `Redrive the dead letters of ${name}` : `Redrive a dead letter of ${name}`,
    verb: 'Redrive',
    sentence: () => (
      <>
        <strong>{name}</strong>:{' '}
        {id === undefined ? (
          plural(dead, 'dead letter')
        ) : (
          <>
            the dead letter <ExactText text={id} />
          </>
        )}{' '}
        {id === undefined && dead !== 1 ? 'are' : 'is'} delivered again, at once, with all attempts anew. The handler
        must tolerate a second run.
      </>
    ),
    act: () => (id === undefined ? { act: 'redrive', name } : { act: 'redrive', name, id }),
  }
}

function pausePlan(name: string, pause: boolean): Plan {
  return {
    title: pause ? `Pause ${name}` : `Resume ${name}`,
    verb: pause ? 'Pause' : 'Resume',
    sentence: () =>
      pause ? (
        <>
          <strong>{name}</strong>: delivers nothing to any process until it is resumed. Messages are kept; those being
          handled may still be settled.
        </>
      ) : (
        <>
          <strong>{name}</strong>: delivers again, what is due at once.
        </>
      ),
    act: () => ({ act: pause ? 'pause' : 'resume', name }),
  }
}
