import type { Taken } from './turn.js'

/** A consumer or a `receive` of this process. */
export interface MessageReceiver {
  readonly visibilityMs: number
  /** False if it asks once and goes: then it does not watch over messages that are due later. */
  readonly stays: boolean
  /** How many messages it can take now. */
  room(): number
  /** The messages for it of one fetch in which it had room, perhaps none; `more` if others are due already. */
  take(taken: readonly Taken[], more: boolean): void
  failed(error: unknown): void
}

/** Everybody in this process who takes messages of one queue. */
export class Receivers {
  readonly #receivers = new Set<MessageReceiver>()

  get size(): number {
    return this.#receivers.size
  }

  add(receiver: MessageReceiver): void {
    this.#receivers.add(receiver)
  }

  delete(receiver: MessageReceiver): void {
    this.#receivers.delete(receiver)
  }

  hasRoom(): boolean {
    for (const receiver of this.#receivers) if (receiver.room() > 0) return true
    return false
  }

  /** True if one of them stays to take what is due later. */
  stay(): boolean {
    for (const receiver of this.#receivers) if (receiver.stays) return true
    return false
  }

  /** A receiver for each message to ask for, `most` at most. They take turns, so that one with much room leaves some to the others. */
  wants(most: number): MessageReceiver[] {
    const wants: MessageReceiver[] = []
    let open = [...this.#receivers]
      .map(receiver => ({ receiver, room: receiver.room() }))
      .filter(({ room }) => room > 0)
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
