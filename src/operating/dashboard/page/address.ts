import { useEffect, useState } from 'preact/hooks'
import type { PageName, Range } from '../view.js'

export const PAGES: ReadonlyArray<readonly [page: PageName, title: string]> = [
  ['limits', 'Limits'],
  ['keys', 'Keys'],
  ['waiting', 'Waiting'],
  ['queues', 'Queues'],
  ['events', 'Events'],
  ['changes', 'Changes'],
  ['processes', 'Processes'],
]

export const RANGES: ReadonlyArray<readonly [range: Range, words: string]> = [
  ['15m', '15 min'],
  ['1h', '1 h'],
  ['6h', '6 h'],
  ['24h', '24 h'],
]

/**
 * What is looked at: a page, and on it a row, or a key. It stands behind the # of the address, which no server ever
 * sees.
 */
export interface Address {
  readonly page: PageName
  /** Of the limits: the row that is open. */
  readonly row?: string
  readonly key?: string
  readonly ref?: string
  /** Of the queues: the message that is looked up. */
  readonly queue?: string
  readonly id?: string
  /** Only what this service uses; '' or absent: all. */
  readonly service?: string
  /** Of the limits: only those whose names hold this text. */
  readonly text?: string
  /** Of the charts; absent: 15 minutes. */
  readonly range?: Range
}

/** Service, range and text stay as they are in the current address, unless they are given. */
export function addressText({ page, row, key, ref, queue, id, ...given }: Address): string {
  const { service = '', range = '15m', text = '' } = { ...readAddress(location.hash), ...given }
  const chosen = new URLSearchParams({
    ...(service !== '' && { service }),
    ...(range !== '15m' && { range }),
    ...(text !== '' && { text }),
    ...(queue !== undefined && id !== undefined && { queue, id }),
  })
  const query = chosen.size > 0 ? `?${chosen}` : ''
  if (key !== undefined) return `#/keys/=${encodeURIComponent(key)}${query}`
  if (ref !== undefined) return `#/keys/~${ref}${query}`
  return row === undefined ? `#/${page}${query}` : `#/${page}/${row}${query}`
}

function readAddress(hash: string): Address {
  const [, name = '', rest = '', query = ''] = /^#\/([a-z]+)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(hash) ?? []
  const page = PAGES.find(([known]) => known === name)?.[0] ?? 'limits'
  const given = new URLSearchParams(query)
  const [service, range] = [given.get('service'), RANGES.find(([known]) => known === given.get('range'))?.[0]]
  const text = given.get('text')
  const [queue, id] = [given.get('queue'), given.get('id')]
  const chosen = {
    ...(service && { service }),
    ...(range && { range }),
    ...(text && { text }),
    ...(queue && id && { queue, id }),
  }
  if (page === 'keys' && rest.startsWith('=')) return { page, key: decoded(rest.slice(1)), ...chosen }
  if (page === 'keys' && rest.startsWith('~')) return { page, ref: rest.slice(1), ...chosen }
  return rest === '' ? { page, ...chosen } : { page, row: rest, ...chosen }
}

export function go(address: Address): void {
  location.hash = addressText(address)
}

/** As `go`, but "back" leaves it out: for a text that is being typed. */
export function goInPlace(address: Address): void {
  location.replace(addressText(address))
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
