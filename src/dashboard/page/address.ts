import { useEffect, useState } from 'preact/hooks'
import type { PageName } from '../view.js'

export const PAGES: ReadonlyArray<readonly [page: PageName, title: string]> = [
  ['limits', 'Limits'],
  ['keys', 'Keys'],
  ['waiting', 'Waiting'],
  ['queues', 'Queues'],
  ['changes', 'Changes'],
  ['processes', 'Processes'],
]

/** What is looked at: a page, and on it a row, or a key. It stands behind the # of the address, which no server ever sees. */
export interface Address {
  readonly page: PageName
  /** Of the limits: the row that is open. */
  readonly row?: string
  readonly key?: string
  readonly ref?: string
}

export function addressText({ page, row, key, ref }: Address): string {
  if (key !== undefined) return `#/keys/=${encodeURIComponent(key)}`
  if (ref !== undefined) return `#/keys/~${ref}`
  return row === undefined ? `#/${page}` : `#/${page}/${row}`
}

function readAddress(hash: string): Address {
  const [, name = '', rest] = /^#\/([a-z]+)(?:\/(.*))?$/s.exec(hash) ?? []
  const page = PAGES.find(([known]) => known === name)?.[0] ?? 'limits'
  if (page === 'keys' && rest?.startsWith('=')) return { page, key: decoded(rest.slice(1)) }
  if (page === 'keys' && rest?.startsWith('~')) return { page, ref: rest.slice(1) }
  return rest === undefined || rest === '' ? { page } : { page, row: rest }
}

export function go(address: Address): void {
  location.hash = addressText(address)
}

export function useAddress(): Address {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const change = () => setHash(location.hash)
    addEventListener('hashchange', change)
    return () => removeEventListener('hashchange', change)
  }, [])
  return readAddress(hash)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
