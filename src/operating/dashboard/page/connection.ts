import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { View } from '../server/page-views.js'
import type { ChangeRequest, ChangeResult, Failure, ViewRequest } from '../view.js'

const REPLY_TIMEOUT_MS = 8000

/** An answer of the server that says what is wrong. */
class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message)
  }
}

/** What a page shows. Rejects with `Refusal`, or with the browser's error where the service does not answer. */
function fetchView(ask: ViewRequest, signal: AbortSignal): Promise<View> {
  return request<View>('view', 'GET', ask, signal)
}

/** Carries out a change. */
export function sendChange(act: ChangeRequest): Promise<ChangeResult> {
  return request<ChangeResult>('act', 'POST', act, AbortSignal.timeout(REPLY_TIMEOUT_MS))
}

const SESSION = 'spillway-session'
/** Where the browser forbids storage, a session lasts as long as the page. */
let session: string | undefined

/**
 * `spillway dashboard` prints an address with a token that works once: it is exchanged for a session, which only pages
 * of this host and port can read. If it is refused, the first view says why.
 */
export async function logIn(): Promise<void> {
  const [, token] = /^#login=([\w-]+)$/.exec(location.hash) ?? []
  if (token === undefined) return
  history.replaceState(undefined, '', '#/limits')
  const response = await fetch('login', { method: 'POST', headers: { 'x-spillway-login': token } }).catch(
    () => undefined,
  )
  if (!response?.ok) return
  session = await response.text()
  stored(storage => storage.setItem(SESSION, session ?? ''))
}

function sessionHeader(): Record<string, string> {
  session ??= stored(storage => storage.getItem(SESSION)) ?? undefined
  return session === undefined ? {} : { 'x-spillway-session': session }
}

/** Uses the storage of the browser, which may forbid it. */
function stored<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(localStorage)
  } catch {
    return undefined
  }
}

async function request<T>(path: string, method: string, content: object, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, {
    method,
    headers: { ...sessionHeader(), 'x-spillway-request': base64url(JSON.stringify(content)) },
    signal: AbortSignal.any([signal, AbortSignal.timeout(REPLY_TIMEOUT_MS)]),
  })
  if (response.ok) return (await response.json()) as T
  const text = await response.text()
  throw new Refusal(reasonIn(text) || `The service answered ${response.status}.`, response.status)
}

function reasonIn(text: string): string {
  try {
    return (JSON.parse(text) as Partial<Failure>).error ?? ''
  } catch {
    return text.slice(0, 300).trim()
  }
}

/** A header field holds ASCII only, and no line breaks. */
function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text)
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

const EVERY_MS = 2000

export interface Polled {
  /** What was answered last, of whatever page. */
  readonly view: View | undefined
  /** When it came, by `performance.now()`. */
  readonly receivedAt: number
  /** The service does not answer: since when, and what is known of it. */
  readonly failing: { readonly since: number; readonly reason: string; readonly refused: boolean } | undefined
  /** Asks again at once. */
  readonly refresh: () => void
}

/** Asks for a page at once and then every two seconds while the document is visible; never two questions at a time. */
export function usePolling(ask: ViewRequest): Polled {
  const [state, setState] = useState<Omit<Polled, 'refresh'>>({ view: undefined, receivedAt: 0, failing: undefined })
  const kick = useRef(() => {})
  const text = JSON.stringify(ask)

  useEffect(() => {
    const asked = JSON.parse(text) as ViewRequest
    let stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const poll = async () => {
      clearTimeout(timer)
      if (document.visibilityState !== 'visible') return
      stop.abort()
      const mine = new AbortController()
      stop = mine
      try {
        const view = await fetchView(asked, mine.signal)
        setState({ view, receivedAt: performance.now(), failing: undefined })
      } catch (error) {
        if (mine.signal.aborted) return
        const refused = error instanceof Refusal
        const reason = refused ? error.message : 'The service does not answer.'
        setState(old => ({ ...old, failing: { since: old.failing?.since ?? Date.now(), reason, refused } }))
      }
      if (!mine.signal.aborted) timer = setTimeout(poll, EVERY_MS)
    }
    kick.current = poll
    const look = () => void poll()
    document.addEventListener('visibilitychange', look)
    look()
    return () => {
      document.removeEventListener('visibilitychange', look)
      clearTimeout(timer)
      stop.abort()
    }
  }, [text])

  const refresh = useCallback(() => void kick.current(), [])
  return { ...state, refresh }
}

/** Now, again each second, while the document is visible. */
export function useSeconds(): number {
  const [now, setNow] = useState(performance.now())
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') setNow(performance.now())
    }, 1000)
    return () => clearInterval(timer)
  }, [])
  return now
}
