/** What the process with the services is started with. */
export interface Orders {
  readonly redisPort: number
  readonly permits: number
  readonly users: readonly string[]
  /** True if also handlers that never end their response are settled: 30 s after their client has gone. */
  readonly settlesAll: boolean
}

/** What one user was charged, beside what its handlers did. */
export interface Account {
  readonly user: string
  readonly handled: number
  readonly charged: number
  /** Handlers that answered 401, or never. */
  readonly wrong: number
  readonly chargedWrong: number
}
