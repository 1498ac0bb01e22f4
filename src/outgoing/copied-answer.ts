/**
 * Two answers out of one, of which the second ends with the first: if its body is cancelled, the partner stops to send,
 * and whoever reads the second body gets an `AbortError`. `clone()` alone would read on to the end, which the partner
 * bills. An answer without a body, or with one that is no stream of the web, is given twice as it is.
 */
export function copied(answer: Response): readonly [first: Response, second: Response] {
  // Not instanceof: other implementations of fetch have a Response of their own.
  if (typeof answer.body?.tee !== 'function' || answer.body.locked) return [answer, answer]
  const [mine, theirs] = answer.body.tee()
  const second = endable(theirs, () => {})
  const first = endable(mine, () => {
    const error = new DOMException('The call was cancelled', 'AbortError')
    CANCELLED.add(error)
    second.end(error)
  })
  return [withBody(answer, first.stream), withBody(answer, second.stream)]
}

/** The answer with another body. No response can be made with a status like 999, which fetch gives. */
function withBody(answer: Response, body: ReadableStream): Response {
  const { status, headers } = answer
  return withFields(answer, new Response(body, status >= 200 && status <= 599 ? answer : { headers }))
}

/** The response with what only fetch can say of an answer. Its clones have it, too. */
function withFields({ status, statusText, ok, url, redirected, type }: Response, response: Response): Response {
  const fields = { status, statusText, ok, url, redirected, type }
  const clone = () => withFields(response, Response.prototype.clone.call(response))
  return Object.defineProperties(
    response,
    Object.fromEntries(Object.entries({ ...fields, clone }).map(([name, value]) => [name, { value }])),
  )
}

const CANCELLED = new WeakSet<object>()

/** Whether reading a second answer failed because the first one's body was cancelled. */
export function isCancelled(error: unknown): boolean {
  return typeof error === 'object' && error !== null && CANCELLED.has(error)
}

/** A second answer of its own, where the first one is to be thrown away; the answer itself if it cannot be copied. */
export function cloned(answer: Response): Response {
  return typeof answer.body?.tee === 'function' && !answer.body.locked ? answer.clone() : answer
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
