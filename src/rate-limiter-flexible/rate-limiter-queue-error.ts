/** A request that a queue cannot take, or that has expired in it. */
export class RateLimiterQueueError extends Error {
  /** 'CustomError', as in rate-limiter-flexible. */
  override readonly name: string = 'CustomError'
  /** What went wrong. */
  override readonly message: string
  /** More about it; absent if there is no more. */
  readonly extra!: string

  constructor(message = '', extra?: string) {
    super(message)
    this.message = message
    if (extra) this.extra = extra
  }
}
