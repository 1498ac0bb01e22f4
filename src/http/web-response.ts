import { type Client, ResponseWatch } from './response-watch.js'

const WATCHES = new WeakMap<object, ResponseWatch>()

/** The watch of the response to a request of the web platform: the same for all who ask about the request. */
export function watchRequest(request: Request): ResponseWatch {
  let watch = WATCHES.get(request)
  if (watch === undefined) {
    watch = new ResponseWatch(watch => new WebClient(request.signal, watch))
    WATCHES.set(request, watch)
  }
  return watch
}

/** The watch, if somebody has asked for it: to make one takes a signal, which is dear on some servers. */
export function knownWatch(request: Request): ResponseWatch | undefined {
  return WATCHES.get(request)
}

/** Gives a request a new watch, for one that is answered a second time. */
export function forgetRequest(request: Request): void {
  WATCHES.delete(request)
}

/** Who has sent a request of the web platform: the runtime aborts its signal when it goes away. */
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
 * The response to be sent in place of `response`: its watch is told when the body has been read to its end, has been cancelled, or has failed.
 * If nobody listens, if there is no body, or if the client has gone, the watch is told at once, and the response is returned as it is.
 */
export function followResponse(response: Response, watch: ResponseWatch): Response {
  // Asked for its body, a response of some servers is made anew: if nobody listens, that would be for nothing.
  if (watch.ended || !watch.listened || response.body === null || watch.gone) {
    watch.end()
    return response
  }
  return new Response(followed(response.body, watch), response)
}

/** The same bytes. Reads from the body only what is read from it, so that nothing is buffered. */
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
