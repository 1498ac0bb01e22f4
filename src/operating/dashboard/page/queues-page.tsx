import { useState } from 'preact/hooks'
import { clock, count, latency, plural, rate, span } from '../look/format.js'
import type { DeadView, QueuesView } from '../server/page-views.js'
import type { QueueRow } from '../view.js'
import { addressText, go } from './address.js'
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
        <Queue key={queue.name} queue={queue} sought={view.sought} now={view.now} />
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

function Queue({
  queue,
  sought,
  now,
}: {
  queue: QueuesView['queues'][number]
  sought: QueuesView['sought']
  now: number
}) {
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
          {dead > 0 && (
            <>
              <ChangeButton plan={() => lettersPlan('redrive', name, dead)}>Redrive all…</ChangeButton>
              <ChangeButton plan={() => lettersPlan('discard', name, dead)}>Discard all…</ChangeButton>
            </>
          )}
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
      <FindMessage name={name} sought={sought?.queue === name ? sought : undefined} now={now} />
      {letters.length > 0 && <Letters name={name} letters={letters} more={dead - letters.length} now={now} />}
    </Panel>
  )
}

/** Looks a message up by its id. */
function FindMessage({ name, sought, now }: { name: string; sought: QueuesView['sought']; now: number }) {
  const [id, setId] = useState(sought?.id ?? '')
  const submit = (event: Event) => {
    event.preventDefault()
    go(id === '' ? { page: 'queues' } : { page: 'queues', queue: name, id })
  }
  return (
    <div class="body">
      <form class="find" onSubmit={submit}>
        <input
          type="search"
          class="filter"
          aria-label={`Find a message of ${name} by its id`}
          placeholder="Find a message by its id…"
          value={id}
          onInput={event => setId(event.currentTarget.value)}
          spellcheck={false}
          autocomplete="off"
        />
        <button type="submit" class="button">
          Find
        </button>
      </form>
      {sought !== undefined && <Message sought={sought} now={now} />}
    </div>
  )
}

const STATES = { ready: 'due', delayed: 'later', unacked: 'being handled', dead: 'dead' } as const

function Message({ sought: { queue, id, found }, now }: { sought: NonNullable<QueuesView['sought']>; now: number }) {
  if (found === null) {
    return (
      <p>
        No message of this queue has the id <ExactText text={id} />: it was handled, cancelled, or never pushed.
      </p>
    )
  }
  const { state, dueAt, attempt, reason, payload } = found
  const waits = state === 'ready' || state === 'delayed'
  return (
    <div class="letter">
      <p>
        <ExactText text={id} /> is {STATES[state]}
        {state === 'delayed' && ` (in ${span(Math.max(0, dueAt - now))}, at ${clock(dueAt, true)})`},{' '}
        {plural(attempt, 'attempt')} so far{reason !== undefined && `, because: ${reason}`}.
      </p>
      {payload === undefined ? (
        <p class="muted">Its payload is shown only with the option keys: 'plain'.</p>
      ) : (
        <pre>
          <code>{payload}</code>
        </pre>
      )}
      {state === 'dead' && <LetterActions name={queue} ids={[id]} />}
      {waits && (
        <div class="actions">
          {state === 'delayed' && (
            <ChangeButton plan={() => messagePlan('deliver-message', queue, id)}>Deliver now…</ChangeButton>
          )}
          <ChangeButton plan={() => messagePlan('cancel-message', queue, id)}>Cancel it…</ChangeButton>
        </div>
      )}
    </div>
  )
}

function messagePlan(act: 'cancel-message' | 'deliver-message', name: string, id: string): Plan {
  const isCancel = act === 'cancel-message'
  return {
    title: isCancel ? `Cancel a message of ${name}` : `Deliver a message of ${name} now`,
    verb: isCancel ? 'Cancel the message' : 'Deliver now',
    sentence: () => (
      <>
        <strong>{name}</strong>: <ExactText text={id} />{' '}
        {isCancel ? 'is deleted before it is delivered. This cannot be undone.' : 'is due now, instead of later.'}
      </>
    ),
    act: () => ({ act, name, id }),
  }
}

/** Dead letters of one reason. */
interface Group {
  readonly reason: string
  readonly letters: readonly DeadView[]
}

function groupsOf(letters: readonly DeadView[]): Group[] {
  const groups = new Map<string, DeadView[]>()
  for (const letter of letters) {
    const group = groups.get(letter.reason)
    if (group === undefined) groups.set(letter.reason, [letter])
    else group.push(letter)
  }
  return [...groups].map(([reason, letters]) => ({ reason, letters }))
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
        rows={groupsOf(letters)}
        keyOf={({ reason }) => reason}
        columns={[
          {
            title: 'Dead letters, by reason',
            kind: 'names',
            cell: ({ reason, letters }) => (
              <details>
                <summary>
                  <bdi>{reason === '' ? 'no reason was given' : reason}</bdi>
                  {letters.length > 1 && <span class="muted"> × {count(letters.length)}</span>}
                </summary>
                {letters.map(letter => (
                  <Letter key={letter.id} of={letter} name={name} isAlone={letters.length === 1} />
                ))}
              </details>
            ),
          },
          {
            title: 'Died last',
            kind: 'number wide',
            cell: ({ letters }) => <Ago at={Math.max(...letters.map(({ diedAt }) => diedAt))} now={now} />,
          },
        ]}
        acts={({ letters }) => <LetterActions name={name} ids={letters.map(({ id }) => id)} />}
      />
      <More count={more} of="dead letter" />
    </>
  )
}

function LetterActions({ name, ids }: { name: string; ids: readonly string[] }) {
  return (
    <div class="actions">
      <ChangeButton plan={() => lettersPlan('redrive', name, ids.length, ids)}>Redrive…</ChangeButton>
      <ChangeButton plan={() => lettersPlan('discard', name, ids.length, ids)}>Discard…</ChangeButton>
    </div>
  )
}

function Letter({
  of: { id, attempts, diedAt, payload },
  name,
  isAlone,
}: {
  of: DeadView
  name: string
  isAlone: boolean
}) {
  return (
    <div class="letter">
      <p class="muted">
        id <ExactText text={id} />, {plural(attempts, 'attempt')}, died at {clock(diedAt, true)}
      </p>
      {payload === undefined ? (
        <p class="muted">Its payload is shown only with the option keys: 'plain'.</p>
      ) : (
        <pre>
          <code>{payload}</code>
        </pre>
      )}
      {!isAlone && <LetterActions name={name} ids={[id]} />}
    </div>
  )
}

/** `ids`: absent for all dead letters of a queue. */
function lettersPlan(act: 'redrive' | 'discard', name: string, dead: number, ids?: readonly string[]): Plan {
  const verb = act === 'redrive' ? 'Redrive' : 'Discard'
  const one = ids?.length === 1 ? ids[0] : undefined
  const are = one === undefined && dead !== 1 ? 'are' : 'is'
  return {
    title: one === undefined ? `${verb} ${plural(dead, 'dead letter')} of ${name}` : `${verb} a dead letter of ${name}`,
    verb,
    sentence: () => (
      <>
        <strong>{name}</strong>:{' '}
        {one === undefined ? (
          plural(dead, 'dead letter')
        ) : (
          <>
            the dead letter <ExactText text={one} />
          </>
        )}{' '}
        {act === 'redrive'
          ? `${are} delivered again, at once, with all attempts anew. The handler must tolerate a second run.`
          : `${are} deleted for good, with what the handler never did. This cannot be undone.`}
      </>
    ),
    act: () => ({ act, name, ...(ids !== undefined && { ids }) }),
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
