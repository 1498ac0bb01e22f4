import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { Ask, View } from '../view.js'
import { fetchView, Refusal } from './connection.js'

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
export function usePolling(ask: Ask): Polled {
  const [state, setState] = useState<Omit<Polled, 'refresh'>>({ view: undefined, receivedAt: 0, failing: undefined })
  const kick = useRef(() => {})
  const text = JSON.stringify(ask)

  useEffect(() => {
    const asked = JSON.parse(text) as Ask
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
