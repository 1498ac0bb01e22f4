/** The frame of every page: the head with its search, the status line and the bands. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { clock, latency, percent, plural, rate, span } from '../look/format.js'
import type { ViewBase } from '../server/page-views.js'
import type { AlertView } from '../view.js'
import { type Address, addressText, go, PAGES } from './address.js'
import { type Polled, useSeconds } from './connection.js'
import { KeyLink, Nothing, OwnName, Panel } from './widgets.js'

/** Data that is older is marked as old. */
const OLD_MS = 6000

export function Head({ address }: { address: Address }) {
  return (
    <header class="head">
      <div class="column">
        <a class="brand" href={addressText({ page: 'limits' })} aria-label="spillway, first page">
          <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
            <path d="M2 6h6c3 0 4 2 5 5s2 7 5 7h4" />
            <path class="second" d="M2 12h3c3 0 4 2 5 4s2 2 3 2" />
          </svg>
          spillway
        </a>
        <nav aria-label="Pages">
          {PAGES.map(([page, title]) => (
            <a key={page} href={addressText({ page })} aria-current={page === address.page ? 'page' : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <Search known={address.key} />
      </div>
    </header>
  )
}

function Search({ known }: { known: string | undefined }) {
  const [text, setText] = useState(known ?? '')
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => setText(known ?? ''), [known])
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as Element
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return
      if (target.matches('input, select, textarea') || document.querySelector('dialog[open]') !== null) return
      event.preventDefault()
      input.current?.focus()
      input.current?.select()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
  const submit = (event: Event) => {
    event.preventDefault()
    if (text === '') go({ page: 'keys' })
    else go({ page: 'keys', key: text })
  }
  return (
    <search>
      <form onSubmit={submit}>
        <input
          ref={input}
          type="search"
          aria-label="Find a key"
          aria-keyshortcuts="/"
          placeholder="Find a key…"
          value={text}
          onInput={event => setText(event.currentTarget.value)}
          onKeyDown={event => event.key === 'Escape' && event.currentTarget.blur()}
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
        />
        <span class="hotkey" aria-hidden="true">
          /
        </span>
      </form>
    </search>
  )
}

export function StatusLine({ view, polled, address }: { view: ViewBase; polled: Polled; address: Address }) {
  const { status, failing, user, access } = view
  const { services, processes, silent, answerMs, perSecond, refusedShare, degradedShare } = status
  return (
    <div class="status">
      <a class="plain" href={addressText({ page: 'processes' })}>
        <span class={processes > 0 ? 'dot' : 'dot off'} aria-hidden="true" />
        <b>{services}</b> {services === 1 ? 'service' : 'services'}, <b>{processes}</b>{' '}
        {processes === 1 ? 'process' : 'processes'}
        {silent > 0 && <span class="muted"> and {silent} silent</span>}
      </a>
      {failing === undefined ? (
        <span>
          <span class="dot" aria-hidden="true" />
          {answerMs === undefined ? (
            'Redis answers'
          ) : (
            <>
              Redis answers in <b>{latency(answerMs)}</b>
            </>
          )}
        </span>
      ) : (
        <span class="amber">
          <span class="dot amber" aria-hidden="true" />
          Redis does not answer
        </span>
      )}
      <span>
        <b>{rate(perSecond)}</b> decisions/s
      </span>
      <span class={refusedShare > 0 ? 'refused' : 'muted'}>
        <b>{percent(refusedShare)}</b> refused
      </span>
      <span class={degradedShare > 0 ? 'amber' : 'muted'}>{percent(degradedShare)} degraded</span>
      <span class="muted">in the last 10 to 20 s</span>
      <ServiceFilter services={view.services} address={address} />
      <span class="age">
        {access === 'read' ? (
          <span class="muted">you may look, not change · </span>
        ) : (
          user !== undefined && (
            <span class="muted">
              <bdi>{user}</bdi> ·{' '}
            </span>
          )
        )}
        <Age view={view} polled={polled} />
      </span>
    </div>
  )
}

/** Not on the pages of changes and events, which are of all services. */
function ServiceFilter({ services, address }: { services: readonly string[]; address: Address }) {
  const { page, service } = address
  if (page === 'changes' || page === 'events' || (services.length < 2 && service === undefined)) return null
  const known = service === undefined || services.includes(service) ? services : [...services, service]
  return (
    <select
      class="filter"
      aria-label="Service"
      value={service ?? ''}
      onInput={event => go({ ...address, service: event.currentTarget.value })}
    >
      <option value="">all services</option>
      {known.map(name => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  )
}

/** A page on which the chosen service has nothing. */
export function NothingOf({ service, title, href }: { service: string; title: string; href: string }) {
  return (
    <Panel title={title}>
      <Nothing>
        Nothing here is known to be used by <bdi>{service}</bdi>. <a href={href}>Show all services</a>
      </Nothing>
    </Panel>
  )
}

function Age({ view, polled }: { view: ViewBase; polled: Polled }) {
  const now = useSeconds()
  const ageMs = Math.max(0, now - polled.receivedAt) + Math.max(0, view.now - view.readAt)
  if (view.readAt === 0) return <span class="amber">no data</span>
  if (ageMs <= OLD_MS) return <span class="muted">live · {Math.round(ageMs / 1000)} s ago</span>
  return <span class="amber">old: {span(ageMs)} ago</span>
}

export function AlertBanners({ view, polled }: { view: ViewBase | undefined; polled: Polled }) {
  const alerts = view?.alerts ?? []
  return (
    <>
      <Announcement alerts={alerts} />
      {polled.failing !== undefined && (
        <div class="band" role="alert">
          <strong>{polled.failing.refused ? polled.failing.reason : 'The service does not answer'}</strong>
          {!polled.failing.refused && (
            <span>Asked again every 2 s. {view !== undefined && 'What stands here is what was known last.'}</span>
          )}
          <span class="since">since {clock(polled.failing.since, true)}</span>
        </div>
      )}
      {polled.failing === undefined && view?.failing !== undefined && (
        <div class="band" role="alert">
          <strong>Redis does not answer</strong>
          <span>
            {view.failing.reason}.{' '}
            {view.readAt > 0 ? 'The numbers are those that were read last.' : 'Nothing could be read yet.'} Check that
            Redis runs and that this process reaches it.
          </span>
          <span class="since">since {clock(view.failing.since, true)}</span>
        </div>
      )}
      <Alerts alerts={alerts} more={view?.moreAlerts ?? 0} now={view?.now ?? 0} />
    </>
  )
}

/** Several fold into one line, so that the limits stay in sight: the first one is the worst. */
function Alerts({ alerts, more, now }: { alerts: readonly AlertView[]; more: number; now: number }) {
  const [worst, ...others] = alerts
  if (worst === undefined) return null
  if (others.length === 0) return <Alert alert={worst} now={now} />
  return (
    <details class="alerts">
      <summary class="band">
        <strong>
          <AlertTitle alert={worst} />
        </strong>
        <span class="more">and {plural(others.length + more, 'more alert')}</span>
        <Since at={worst.since} now={now} />
      </summary>
      {alerts.map(alert => (
        <Alert key={alert.id} alert={alert} now={now} />
      ))}
      {more > 0 && <p class="band">and {plural(more, 'alert')} that are not shown</p>}
    </details>
  )
}

/** The name in it may be of any script, and stands for itself. */
function AlertTitle({ alert }: { alert: AlertView }) {
  const { title, subject = '', limitName } = alert
  if (subject === '' || !title.startsWith(subject)) return <>{title}</>
  return (
    <>
      <bdi>{subject}</bdi>
      {limitName !== undefined && (
        <>
          {' '}
          <OwnName of={limitName} />
        </>
      )}
      {title.slice(subject.length)}
    </>
  )
}

function Since({ at, now }: { at: number | undefined; now: number }) {
  if (at === undefined) return null
  return (
    <span class="since">
      since {clock(at)}, {span(Math.max(0, now - at))}
    </span>
  )
}

function Alert({ alert, now }: { alert: AlertView; now: number }) {
  const { text, key, since, limit, queue } = alert
  const title = <AlertTitle alert={alert} />
  return (
    <div class="band">
      <strong>
        {limit !== undefined ? (
          <a class="plain" href={addressText({ page: 'limits', row: limit })}>
            {title}
          </a>
        ) : queue !== undefined ? (
          <a class="plain" href={addressText({ page: 'queues' })}>
            {title}
          </a>
        ) : (
          title
        )}
      </strong>
      {text !== undefined && (
        <span>
          {key === undefined ? (
            text
          ) : (
            <>
              One key, <KeyLink of={key} />, {text}
            </>
          )}
        </span>
      )}
      <Since at={since} now={now} />
    </div>
  )
}

/** Tells a screen reader of each alert once, when it begins: the numbers in the bands change every two seconds. */
function Announcement({ alerts }: { alerts: readonly AlertView[] }) {
  const known = useRef(new Set<string>())
  const [text, setText] = useState('')
  const ids = alerts.map(({ id }) => id).join('\n')
  useEffect(() => {
    const current = new Set(ids === '' ? [] : ids.split('\n'))
    const fresh = alerts.filter(({ id }) => !known.current.has(id))
    known.current = current
    if (fresh.length > 0) setText(fresh.map(({ title }) => title).join('. '))
    else if (current.size === 0) setText('')
  }, [ids, alerts])
  return (
    <div class="hidden" role="status" aria-live="polite">
      {text}
    </div>
  )
}

export function summaryOf(alerts: readonly AlertView[]): string {
  return alerts.length === 0 ? '' : `(${plural(alerts.length, 'alert')}) `
}
