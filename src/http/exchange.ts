import type { ServerResponse } from 'node:http'

/** Longer delays make `setTimeout` fire at once. */
const LONGEST_MS = 2 ** 31 - 1

/**
 * Calls back once when the response has been sent, or when the connection has closed before that; at once if that has happened
 * already. The returned function takes it back.
 */
export function onEnd(response: ServerResponse, listener: () => void): () => void {
  if (response.writableFinished || response.destroyed) {
    listener()
    return () => {}
  }
  const ended = () => {
    forget()
    listener()
  }
  const forget = () => {
    response.off('finish', ended)
    response.off('close', ended)
  }
  response.on('finish', ended)
  response.on('close', ended)
  return forget
}

/** Resolves after so long: true, or false as soon as the client has gone. */
export function stays(response: ServerResponse, ms: number): Promise<boolean> {
  return new Promise(resolve => {
    let forget = () => {}
    const timer = setTimeout(
      () => {
        forget()
        resolve(true)
      },
      Math.min(ms, LONGEST_MS),
    )
    forget = onEnd(response, () => {
      clearTimeout(timer)
      resolve(false)
    })
  })
}
