import type { Ask, Frame, KeyFound, KeyLimiterView, KeysView } from '../view.js'
import type { DashboardState } from './dashboard-state.js'
import { addressIn } from './limiters.js'
import type { IsWanted } from './shared-answer.js'

/** Blocked keys on the page. */
const MOST_BLOCKS = 50
/** Limiters that are asked for a key. */
const MOST_LOOKS = 50

/** The page of keys: one that is sought, those that ask most and are refused most, and those that are blocked. */
export async function keysContent(
  state: DashboardState,
  ask: Ask,
  isWanted: IsWanted,
): Promise<(frame: Frame) => KeysView> {
  const { reading, reports } = state
  const isUsed = reading.usedBy(ask.service)
  const isMeant = isUsed && ((limiter: string) => isUsed('limit', limiter))
  const known = isMeant === undefined ? reading.known : reading.known.filter(({ name }) => isMeant(name))
  const alive = reports.failing === undefined
  const [noted, { blocks, unread }, search] = alive
    ? await Promise.all([state.noted.get(), state.blocks(ask.service, isWanted), searched(state, ask, isWanted)])
    : [[], { blocks: [], unread: 0 }, undefined]
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
  return frame => ({
    ...frame,
    page: 'keys',
    mostRefused: reading.callers.most('refused', key => state.show(key), isMeant),
    mostAsking: reading.callers.most('asked', key => state.show(key), isMeant),
    limiters: known.map(({ name }) => name).sort(),
    blocks: blocks.slice(0, MOST_BLOCKS).map(({ limiter, key, until }) => {
      const by = blockedBy(limiter, key, until)
      return { limiter, key: state.show(key), until, ...(by !== undefined && { by }) }
    }),
    unlisted: unread,
    ...(search !== undefined && { found: foundView(state, ask, search, blockedBy) }),
  })
}

interface Search {
  readonly key: string
  readonly as: string | undefined
  readonly looks: ReadonlyArray<PromiseSettledResult<KeyLimiterView | undefined>>
  readonly unasked: number
}

/** Looks for a key; undefined if none is asked for, or none is known by its ref. */
async function searched(state: DashboardState, ask: Ask, isWanted: IsWanted): Promise<Search | undefined> {
  const key = ask.ref !== undefined ? await state.keyOf(ask.ref, isWanted) : ask.key
  if (key === undefined || key === '') return undefined
  const as = addressIn(key)
  const sought = as ?? key
  const { callers } = state.reading
  const all = state.sharedLimiters(ask.service)
  const naming = all.length <= MOST_LOOKS ? all : all.filter(({ name }) => callers.has(name, sought))
  const others = all.length <= MOST_LOOKS ? [] : all.filter(({ name }) => !callers.has(name, sought))
  const limiters = [...naming, ...others].slice(0, MOST_LOOKS)
  const look = () => state.limiters.look(limiters, sought, state.reports.now)
  const looks = await state.found.get(JSON.stringify([sought, ask.service]), look, isWanted)
  return { key, as, looks, unasked: all.length - limiters.length }
}

function foundView(
  state: DashboardState,
  ask: Ask,
  { key, as, looks, unasked }: Search,
  blockedBy: (limiter: string, key: string, until: number | undefined) => string | undefined,
): KeyFound {
  const sought = as ?? key
  const limiters = looks.flatMap(look => {
    const known = look.status === 'fulfilled' ? look.value : undefined
    if (known === undefined) return []
    const by = blockedBy(known.limiter, sought, known.blockedUntil)
    return [by === undefined ? known : { ...known, blockedBy: by }]
  })
  return {
    // A user who typed the key knows it; keys that were shown masked stay masked.
    key: ask.ref === undefined ? { ...state.show(sought), text: key } : state.show(sought),
    ...(as !== undefined && { as }),
    limiters,
    asked: looks.length,
    unasked,
    unread: looks.filter(({ status }) => status === 'rejected').length,
  }
}
