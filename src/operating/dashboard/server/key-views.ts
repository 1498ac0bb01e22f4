import { createHmac } from 'node:crypto'
import type { KeyView } from '../view.js'

/** How keys are shown. */
export type KeyStyle = 'masked' | 'plain' | 'hashed'

const GAP = '••'
/** Of a masked key at most a third is shown, and at most so many characters at each end. */
const MOST_SHOWN = 4
const MOST_PLAIN = 200
/** Most keys that were shown and can be changed. */
const MOST_REFS = 5000

/**
 * The displayed form of keys. What stands for a key is made with a secret that viewers never see: keys can be guessed
 * (addresses, numbers of users), and a hash alone would confirm each guess.
 */
export class KeyViews {
  /**
   * Keys that were shown last, and what stands for them: an HMAC costs more than all else that a key in a list costs.
   */
  readonly #shown = new Map<string, KeyView>()
  readonly #keys = new Map<string, string>()
  #of = ''

  /** `secret` is asked at each use: all dashboards share it in Redis, where it is read first. */
  constructor(
    readonly style: KeyStyle,
    readonly secret: () => string,
  ) {}

  /** The displayed form of a key; viewers may act on it. */
  view(key: string): KeyView {
    const secret = this.secret()
    if (secret !== this.#of) {
      this.#shown.clear()
      this.#keys.clear()
      this.#of = secret
    }
    const known = this.#shown.get(key) ?? this.#made(key)
    this.#shown.delete(key)
    this.#shown.set(key, known)
    this.#keys.set(known.ref, key)
    const [oldest] = this.#shown
    if (this.#shown.size > MOST_REFS && oldest !== undefined) {
      this.#shown.delete(oldest[0])
      this.#keys.delete(oldest[1].ref)
    }
    return known
  }

  /** The key behind a ref that was shown here. */
  keyOf(ref: string): string | undefined {
    return this.#keys.get(ref)
  }

  #made(key: string): KeyView {
    const ref = this.ref(key)
    if (this.style === 'plain') return { text: key.length > MOST_PLAIN ? `${key.slice(0, MOST_PLAIN)}…` : key, ref }
    return { text: this.style === 'hashed' ? `#${ref.slice(0, 10)}` : masked(key), ref }
  }

  /** Replaces a key in a request. */
  ref(key: string): string {
    return createHmac('sha256', this.secret()).update(Buffer.from(key, 'utf16le')).digest('base64url').slice(0, 22)
  }
}

/** What a key begins with that says of what kind it is: 'user:'. */
const KIND = /^[A-Za-z][\w.-]{0,19}:(?=.)/

/** A key with its middle left out: '20••7'. One that says its kind keeps that and its end: 'user:••42'. */
function masked(key: string): string {
  const [kind = ''] = KIND.exec(key) ?? []
  const letters = [...key.slice(kind.length)]
  const shown = Math.min(2 * MOST_SHOWN, Math.floor(letters.length / 3))
  if (kind !== '') {
    const end = Math.min(MOST_SHOWN, Math.max(shown, Math.min(1, letters.length - 1)))
    return kind + GAP + letters.slice(letters.length - end).join('')
  }
  const head = Math.min(MOST_SHOWN, Math.ceil(shown * 0.65))
  const tail = shown - head
  return letters.slice(0, head).join('') + GAP + letters.slice(letters.length - tail).join('')
}
