import type { ViewRequest } from '../view.js'
import type { DashboardState } from './dashboard-state.js'
import { addressIn, type KeyState } from './limiters.js'
import type { IsViewerThere } from './redis-calls.js'

/** Limiters that are asked for a key. */
const MOST_LOOKS = 50

/** The page of keys: one that is sought, those that ask most and are refused most, and those that are blocked. */
export async function keysContent(state: DashboardState, ask: ViewRequest, isViewerThere: IsViewerThere) {
  const { summary, reports } = state
  const isUsed = summary.usedBy(ask.service)
  const isMeant = isUsed && ((limiter: string) => isUsed('limit', limiter))
  const known = isMeant === undefined ? summary.known : summary.known.filter(({ name }) => isMeant(name))
  const alive = reports.failing === undefined
  const [noted, { blocks, more, unread }, own, search] = alive
    ? await Promise.all([
        state.changeHistory.get(),
        state.blocks(ask.service, isViewerThere),
        state.ownLimits(ask.service),
        searched(state, ask, isViewerThere),
      ])
    : [[], { blocks: [], more: 0, unread: 0 }, { items: [], more: 0 }, undefined]
  // Others may have blocked it later: the block of a note ends when the note says.
  const blockedBy = (limiter: string, blocked: string, until: number | undefined) =>
    noted.find(
      ({ subject, key, until: noted }) =>
        subject === limiter &&
        key === blocked &&
        noted !== undefined &&
        until !== undefined &&
        Math.abs(noted - until) < 1000,
    )?.user
  return {
    page: 'keys' as const,
    mostRefused: summary.callers.top('refused', key => state.show(key), isMeant),
    mostAsking: summary.callers.top('asked', key => state.show(key), isMeant),
    limiters: known.map(({ name }) => name).sort(),
    blocks: blocks.map(({ limiter, key, until }) => {
      return { limiter, key: state.show(key), until, by: blockedBy(limiter, key, until) }
    }),
    moreBlocks: more,
    ownLimits: own.items.map(({ name, key = '', policy, atMs, untilMs, by }) => {
      return { limiter: name, key: state.show(key), policy: policy ?? '', at: atMs, until: untilMs, by }
    }),
    moreOwnLimits: own.more,
    /** Limiters whose blocks were not read, because there are too many. */
    unlisted: unread,
    found: search && foundView(state, ask, search, blockedBy),
  }
}

interface Search {
  readonly key: string
  readonly as: string | undefined
  readonly looks: readonly KeyState[]
  readonly unasked: number
}

/** Looks for a key; undefined if none is asked for, or none is known by its ref. */
async function searched(
  state: DashboardState,
  ask: ViewRequest,
  isViewerThere: IsViewerThere,
): Promise<Search | undefined> {
  const key = ask.ref !== undefined ? await state.keyOf(ask.ref, isViewerThere) : ask.key
  if (key === undefined || key === '') return undefined
  const as = addressIn(key)
  const sought = as ?? key
  const { callers } = state.summary
  const all = state.sharedLimiters(ask.service)
  const naming = all.length <= MOST_LOOKS ? all : all.filter(({ name }) => callers.has(name, sought))
  const others = all.length <= MOST_LOOKS ? [] : all.filter(({ name }) => !callers.has(name, sought))
  const limiters = [...naming, ...others].slice(0, MOST_LOOKS)
  const look = () => state.limiters.look(limiters, sought)
  const looks = await state.found.get(JSON.stringify([sought, ask.service]), look, isViewerThere)
  return { key, as, looks, unasked: all.length - limiters.length }
}

export function foundView(
  state: DashboardState,
  ask: ViewRequest,
  { key, as, looks, unasked }: Search,
  blockedBy: (limiter: string, key: string, until: number | undefined) => string | undefined,
) {
  const sought = as ?? key
  const limiters = looks.flatMap(look => {
    const known = look.status === 'fulfilled' ? look.value : undefined
    if (known === undefined) return []
    return [{ ...known, blockedBy: blockedBy(known.limiter, sought, known.blockedUntil) }]
  })
  return {
    // A user who typed the key knows it; keys that were shown masked stay masked.
    key: ask.ref === undefined ? { ...state.show(sought), text: key } : state.show(sought),
    /** The key as counted, if it differs: an address in its usual notation. */
    as,
    limiters,
    /** How many limiters were asked: those first whose reports name the key, then the worst. */
    asked: looks.length,
    /** How many were not asked, because there are too many. */
    unasked,
    /** How many of them could not be read: another version's, or slow. */
    unread: looks.filter(({ status }) => status === 'rejected').length,
  }
}
