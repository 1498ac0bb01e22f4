import { type Client, ResponseWatch } from './response-watch.js'

const WATCHES = new WeakMap<object, ResponseWatch>()

/** The watch of the response to a web platform request; all callers for the request share it. */
export function watchRequest(request: Request): ResponseWatch {
  let watch = WATCHES.get(request)
  if (watch === undefined) {
    watch = new ResponseWatch(watch => new WebClient(request.signal, watch))
    WATCHES.set(request, watch)
  }
  return watch
}

/** The watch, if it exists: creating one needs the request's signal, which is expensive on some servers. */
export function knownWatch(request: Request): ResponseWatch | undefined {
  return WATCHES.get(request)
}

/** Gives a request a new watch, for a request that is answered a second time. */
export function forgetRequest(request: Request): void {
  WATCHES.delete(request)
}

/** The sender of a web platform request: the runtime aborts the request's signal when it goes away. */
class WebClient implements Client {
  readonly #signal: AbortSignal
  readonly #watch: ResponseWatch

  constructor(signal: AbortSignal, watch: ResponseWatch) {
    this.#signal = signal
    this.#watch = watch
  }

  get gone(): boolean {
    return this.#signal.aborted
  }

  watch(): void {
    this.#signal.addEventListener('abort', this.#aborted)
  }

  unwatch(): void {
    this.#signal.removeEventListener('abort', this.#aborted)
  }

  readonly #aborted = (): void => this.#watch.leave()
}

/**
 * The response to send instead of `response`: reports to its watch when the body has been read to its end, was cancelled, or failed.
 * Without listeners or a body, or if the client has gone, the watch is ended at once, and the response is returned unchanged.
 */
export function followResponse(response: Response, watch: ResponseWatch): Response {
  // Some servers rebuild a response when its body is accessed: without a listener that would be wasted.
  if (watch.ended || !watch.listened || response.body === null || watch.gone) {
    watch.end()
    return response
  }
  return new Response(followed(response.body, watch), response)
}

/** The same bytes. Reads from the body only on demand, so that nothing is buffered. */
function followed(body: ReadableStream<Uint8Array>, watch: ResponseWatch): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let piecesRead = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (!done) {
            piecesRead++
            return controller.enqueue(value)
          }
          controller.close()
          watch.end(!watch.gone, piecesRead > 1)
        } catch (error) {
          watch.end(false, piecesRead > 0)
          throw error
        }
      },
      cancel(reason) {
        watch.leave()
        watch.end(false, true)
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}
