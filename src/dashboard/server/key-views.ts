import { createHash } from 'node:crypto'
import type { KeyView } from '../view.js'

/** How keys are shown. */
export type KeyStyle = 'masked' | 'plain' | 'hashed'

const GAP = '••'
const MOST_SHOWN = 12

/** Replaces a key in a request: the page's viewers cannot learn the key from it. */
export function refOf(key: string): string {
  return hash(key).slice(0, 22)
}

export function keyView(key: string, style: KeyStyle): KeyView {
  if (style === 'plain') return { text: key.length > 200 ? `${key.slice(0, 200)}…` : key, ref: refOf(key) }
  if (style === 'hashed') return { text: `#${hash(key).slice(0, 10)}`, ref: refOf(key) }
  return { text: masked(key), ref: refOf(key) }
}

/** A key with its middle left out: '203.0••.9'. A third is missing, and at least two characters; of a long one all but 24. */
function masked(key: string): string {
  const letters = [...key]
  const kept = letters.length - Math.max(2, Math.ceil(letters.length / 3))
  if (kept <= 0) return GAP
  const head = Math.min(MOST_SHOWN, Math.ceil(kept * 0.65))
  const tail = Math.min(MOST_SHOWN, kept - head)
  return letters.slice(0, head).join('') + GAP + letters.slice(letters.length - tail).join('')
}

function hash(key: string): string {
  return createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url')
}
