/**
 * Two answers out of one, of which the second ends with the first: if its body is cancelled, the partner stops to send,
 * and whoever reads the second body gets an `AbortError`. `clone()` alone would read on to the end, which the partner
 * bills. An answer without a body, or with one that is no stream of the web, is given twice as it is.
 */
export function copied(answer: Response): readonly [first: Response, second: Response] {
  if (!(answer instanceof Response) || answer.body === null) return [answer, answer]
  const { url, redirected, type } = answer
  const [mine, theirs] = answer.body.tee()
  const second = endable(theirs, () => {})
  const first = endable(mine, () => {
    const error = new DOMException('The call was cancelled', 'AbortError')
    CANCELLED.add(error)
    second.end(error)
  })
  const withBody = (body: ReadableStream) => {
    const response = new Response(body, answer)
    // What only fetch can say.
    return Object.defineProperties(response, {
      url: { value: url },
      redirected: { value: redirected },
      type: { value: type },
    })
  }
  return [withBody(first.stream), withBody(second.stream)]
}

const CANCELLED = new WeakSet<object>()

/** Whether reading a second answer failed because the first one's body was cancelled. */
export function isCancelled(error: unknown): boolean {
  return typeof error === 'object' && error !== null && CANCELLED.has(error)
}

/** A second answer of its own, where the first one is to be thrown away. */
export function cloned(answer: Response): Response {
  return answer instanceof Response ? answer.clone() : answer
}

/** A stream that can be ended from outside. `cancelled`: its reader has given up. */
function endable(source: ReadableStream<Uint8Array>, cancelled: () => void) {
  const reader = source.getReader()
  let controller!: ReadableByteStreamController
  const stream = new ReadableStream({
    type: 'bytes',
    start: given => {
      controller = given
    },
    async pull() {
      const { done, value } = await reader.read()
      if (!done) return controller.enqueue(value as Uint8Array<ArrayBuffer>)
      controller.close()
      // A reader that brought its own buffer.
      controller.byobRequest?.respond(0)
    },
    async cancel(reason) {
      cancelled()
      await reader.cancel(reason)
    },
  })
  const end = (error: unknown) => {
    controller.error(error)
    reader.cancel(error).catch(() => {})
  }
  return { stream, end }
}
