import type { Taken } from './fetch.js'

/** A consumer or a `receive` of this process. */
export interface MessageReceiver {
  readonly visibilityMs: number
  /** False if it asks once and leaves: then it does not watch for messages that are due later. */
  readonly stays: boolean
  /** True if its messages wait before their handler begins: their attempt counts from then on. */
  readonly beginsLater: boolean
  /** The number of messages that it can take now. */
  room(): number
  /**
   * Receives its share of the messages of one fetch, perhaps none. `more`: true if further messages are already due.
   */
  take(taken: readonly Taken[], more: boolean): void
  /** A fetch has failed after `tookMs`. */
  failed(error: unknown, tookMs: number): void
  /** The connection for wake-ups failed, after nothing was heard for `silentMs`; or it works. */
  wakeupFailed?(error: unknown, silentMs: number): void
  wakeupWorks?(): void
}

/** All consumers and `receive` calls of this process for one queue. */
export class Receivers extends Set<MessageReceiver> {
  hasRoom(): boolean {
    for (const receiver of this) if (receiver.room() > 0) return true
    return false
  }

  /** True if one of them stays to take messages that are due later. */
  stay(): boolean {
    for (const receiver of this) if (receiver.stays) return true
    return false
  }

  /**
   * A receiver for each message to ask for, at most `most`. They take turns, so that one with much room leaves some to
   * the others.
   */
  wants(most: number): MessageReceiver[] {
    const wants: MessageReceiver[] = []
    let open = [...this].map(receiver => ({ receiver, room: receiver.room() })).filter(({ room }) => room > 0)
    while (open.length > 0 && wants.length < most) {
      for (const each of open) {
        if (wants.length >= most) break
        wants.push(each.receiver)
        each.room--
      }
      open = open.filter(({ room }) => room > 0)
    }
    return wants
  }
}
