import { options, render, type VNode } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { printable } from '../../../limiter/core/printable.js'
import type { View } from '../server/page-views.js'
import type { ViewRequest } from '../view.js'
import { type Address, addressText, PAGES, useAddress } from './address.js'
import { ActingContext, useActing } from './change-dialogs.js'
import { ChangesPage } from './changes-page.js'
import { logIn, usePolling } from './connection.js'
import { EventsPage } from './events-page.js'
import { AlertBanners, Head, NothingOf, StatusLine, summaryOf } from './frame.js'
import { KeysPage } from './keys-page.js'
import { LimitsPage } from './limits-page.js'
import { ProcessesPage } from './processes-page.js'
import { QueuesPage } from './queues-page.js'
import { WaitingPage } from './waiting-page.js'
import { Code, Panel } from './widgets.js'

const CODE = `import { reporter } from 'spillway/dashboard'
const observer = reporter({ client })
app.use(rateLimit({ policy: '100/1m', store: new RedisStore(client), observer }))`

/** Shown before any process has reported. */
function Start() {
  return (
    <Panel title="Nothing has reported yet">
      <div class="body text">
        <p>
          This dashboard shows what your processes tell. Give each of them a reporter, over the same Redis and the same
          prefix as the limiter's store:
        </p>
        <Code text={CODE} />
        <p>
          <code>client</code> is your client of ioredis or node-redis. The same <code>observer</code> goes to{' '}
          <code>RateLimiter</code>, <code>SharedRateLimiter</code>, <code>Semaphore</code> and <code>DelayQueue</code>.
          The first numbers are here two seconds after the first request.
        </p>
      </div>
    </Panel>
  )
}

/** Grey shapes of the final size, for the moment until the first numbers come. */
function Loading() {
  return (
    <div class="loading" aria-hidden="true">
      <div class="shape line" />
      <div class="panel">
        <header>
          <div class="shape word" />
        </header>
        <div class="body">
          {[1, 2, 3, 4, 5].map(row => (
            <div key={row} class="shape row" />
          ))}
        </div>
      </div>
    </div>
  )
}

const MOST_ROWS = 1000

function App() {
  const address = useAddress()
  const { page, row, key, ref, service, range, text, queue, id } = address
  /** undefined: the worst is open, whichever that is. */
  const [open, setOpen] = useState<readonly string[] | undefined>(undefined)
  const [rows, setRows] = useState<number | undefined>(undefined)
  const ask: ViewRequest = {
    page,
    ...(page === 'limits' &&
      (row !== undefined || open !== undefined) && { open: row === undefined ? open : [row, ...(open ?? [])] }),
    ...(page === 'limits' && rows !== undefined && { rows }),
    ...(page === 'limits' && range !== undefined && { range }),
    ...(page === 'limits' && text !== undefined && { text }),
    ...(page === 'queues' && queue !== undefined && id !== undefined && { queue, id }),
    ...(page !== 'changes' && page !== 'events' && service !== undefined && { service }),
    ...(key !== undefined && { key }),
    ...(ref !== undefined && { ref }),
  }
  const polled = usePolling(ask)
  const view = polled.view
  const acting = useActing(polled.refresh)
  const title = PAGES.find(([name]) => name === page)?.[1] ?? ''
  useEffect(() => {
    document.title = `${summaryOf(view?.alerts ?? [])}${title} · spillway`
  }, [title, view?.alerts])

  const worst = view?.page === 'limits' ? view.rows.find(row => row.open !== undefined)?.id : undefined
  // The first answer says which row is the worst; from then on the same one stays open.
  useEffect(() => {
    if (open === undefined && worst !== undefined) setOpen([worst])
  }, [open, worst])
  const opened = useMemo(
    () => new Set([...(open ?? (worst === undefined ? [] : [worst])), ...(row === undefined ? [] : [row])]),
    [open, worst, row],
  )
  const toggle = (id: string) => {
    const next = opened.has(id) ? [...opened].filter(other => other !== id) : [...opened, id]
    setOpen(next)
    if (row !== undefined) history.replaceState(undefined, '', addressText({ page: 'limits' }))
    if (row !== undefined) dispatchEvent(new HashChangeEvent('hashchange'))
  }

  const may = view?.access === 'write'
  const context = { may, noLive: view?.noLive, processes: view?.status.processes ?? 0, ask: acting.ask }
  return (
    <ActingContext.Provider value={context}>
      <button type="button" class="button skip" onClick={skip}>
        Skip to the content
      </button>
      <Head address={address} />
      <main class="column" id="content" tabIndex={-1}>
        <h1 class="hidden">{title}</h1>
        {view !== undefined && <StatusLine view={view} polled={polled} address={address} />}
        <AlertBanners view={view} polled={polled} />
        {view === undefined ? (
          polled.failing === undefined && <Loading />
        ) : view.page !== page ? (
          <Loading />
        ) : !view.installed && view.failing === undefined ? (
          <Start />
        ) : service !== undefined && isEmpty(view) ? (
          <NothingOf service={service} title={title} href={addressText({ ...address, service: '' })} />
        ) : (
          <Content
            view={view}
            address={address}
            sought={key !== undefined || ref !== undefined}
            opened={opened}
            toggle={toggle}
            more={() => setRows(MOST_ROWS)}
          />
        )}
      </main>
      {acting.elements}
    </ActingContext.Provider>
  )
}

function Content({
  view,
  address,
  sought,
  opened,
  toggle,
  more,
}: {
  view: View
  address: Address
  sought: boolean
  opened: ReadonlySet<string>
  toggle: (id: string) => void
  more: () => void
}) {
  switch (view.page) {
    case 'keys':
      return <KeysPage view={view} sought={sought} />
    case 'waiting':
      return <WaitingPage view={view} />
    case 'queues':
      return <QueuesPage view={view} />
    case 'events':
      return <EventsPage view={view} />
    case 'changes':
      return <ChangesPage view={view} />
    case 'processes':
      return <ProcessesPage view={view} />
    default:
      return <LimitsPage view={view} address={address} open={opened} toggle={toggle} more={more} />
  }
}

/** Whether a service that was chosen has nothing on this page. */
function isEmpty(view: View): boolean {
  switch (view.page) {
    case 'limits':
      return view.rows.length + view.queues.length + view.shared.length === 0
    case 'waiting':
      return view.shared.length === 0
    case 'queues':
      return view.queues.length === 0
    case 'processes':
      return view.processes.length === 0
    default:
      return false
  }
}

/** Not a link: what stands behind # in the address names the page. */
function skip(): void {
  document.getElementById('content')?.focus()
}

const SPOKEN = ['title', 'aria-label', 'aria-valuetext']

/**
 * Everything that is written on the page passes here: names and keys may contain characters that hide a part of them or
 * turn the direction of writing, so that "95 %" reads as "59 %". They are written out, like \u{202e}.
 */
options.vnode = (node: VNode) => {
  const { type, props } = node as { type: unknown; props: Record<string, unknown> | string }
  if (typeof props === 'string') (node as { props: unknown }).props = writtenOut(props)
  else if (typeof type === 'string') {
    for (const name of SPOKEN) if (typeof props[name] === 'string') props[name] = writtenOut(props[name])
  }
}

/** Payloads and code have several lines. */
function writtenOut(text: string): string {
  return text.replace(/[^\n]+/g, printable)
}

const root = document.getElementById('app')
if (root !== null) logIn().finally(() => render(<App />, root))
