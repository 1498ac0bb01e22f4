/** A value, or a promise of it. */
export type SyncOrAsync<Value> = Value | PromiseLike<Value>

/** `then`, but synchronous for a plain value: one more promise costs a request as much as a whole decision. */
export function after<Value, Result>(
  value: SyncOrAsync<Value>,
  next: (value: Value) => SyncOrAsync<Result>,
): SyncOrAsync<Result> {
  return isPromise(value) ? value.then(next) : next(value)
}

export function isPromise<Value>(value: SyncOrAsync<Value>): value is PromiseLike<Value> {
  return typeof (value as PromiseLike<Value> | undefined | null)?.then === 'function'
}
