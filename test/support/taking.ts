/** What came of something that was asked for: its value, or its error. */
export interface Taken<T> {
  /** Settles with it, and never rejects. */
  readonly done: Promise<void>
  granted: boolean
  value?: T
  error?: unknown
  /** By `performance.now()`. */
  endedAt: number
}

/** Keeps what comes of it. */
export function taking<T>(asked: Promise<T>): Taken<T> {
  const end = (what: Partial<Taken<T>>) => void Object.assign(taken, what, { endedAt: performance.now() })
  const done = asked.then(
    value => end({ granted: true, value }),
    error => end({ error }),
  )
  const taken: Taken<T> = { done, granted: false, endedAt: 0 }
  return taken
}
