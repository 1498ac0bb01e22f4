const LISTENERS = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Calls back when the signal is aborted; the returned function unsubscribes. We add only one listener to a signal, however many
 * waiters share it: Node warns of a leak from the eleventh listener on.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  let listeners = LISTENERS.get(signal)
  if (listeners === undefined) {
    const all = new Set<() => void>()
    const callAll = () => {
      LISTENERS.delete(signal)
      for (const each of all) each()
    }
    signal.addEventListener('abort', callAll, { once: true })
    OURS.set(all, callAll)
    LISTENERS.set(signal, all)
    listeners = all
  }
  const mine = listeners
  mine.add(listener)
  return () => {
    if (!mine.delete(listener) || mine.size > 0 || LISTENERS.get(signal) !== mine) return
    // A signal that lives as long as the process must not accumulate listeners of ended waits.
    LISTENERS.delete(signal)
    signal.removeEventListener('abort', OURS.get(mine) as () => void)
  }
}

const OURS = new WeakMap<Set<() => void>, () => void>()
