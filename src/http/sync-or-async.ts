/** A value that is there, or will be. */
export type SyncOrAsync<Value> = Value | PromiseLike<Value>

/** `then`, but at once if nothing need be waited for: a promise more costs a request as much as a whole decision. */
export function after<Value, Result>(
  value: SyncOrAsync<Value>,
  next: (value: Value) => SyncOrAsync<Result>,
): SyncOrAsync<Result> {
  return isPromise(value) ? value.then(next) : next(value)
}

export function isPromise<Value>(value: SyncOrAsync<Value>): value is PromiseLike<Value> {
  return typeof (value as PromiseLike<Value> | undefined | null)?.then === 'function'
}
