import { StoreError } from '../../../limiter/core/errors.js'
import { replyWords } from '../../../redis/replies.js'
import { percentile } from '../counts.js'
import type { LevelRow } from '../records.js'
import type { QueueCounts, QueueRow, SharedRow, UnreadRow } from '../view.js'
import type { DashboardState } from './dashboard-state.js'
import type { DeadView, ReadRow } from './shared-objects.js'

export const NO_QUEUES: { queues: LetteredRow[]; moreQueues: number } = { queues: [], moreQueues: 0 }
export const NO_SHARED = { shared: [] as SharedRow[], moreShared: 0 }

export type LetteredRow = QueueRow & { readonly letters: readonly DeadView[] }

/** As many queues as a page shows: those with dead letters before others, in the order of the alphabet. */
export async function queueRows(
  state: DashboardState,
  most: number,
  withLetters: boolean,
  service: string | undefined,
) {
  const { summary, deadLetters } = state
  const names = summary.names('queue', service)
  const chosen = [...names].sort((a, b) => Number(isDead(b)) - Number(isDead(a))).slice(0, most)
  const queues = await Promise.all(
    chosen.sort().map(async (name): Promise<LetteredRow> => {
      const { counts, letters }: { counts: QueueCounts | UnreadRow; letters: readonly DeadView[] } = await state
        .queue(name, withLetters)
        .catch(error => ({ counts: unread(name)(error), letters: [] }))
      const sums = summary.lateness.get(name)
      if (sums === undefined) return { ...counts, letters }
      const [late50, late99] = [percentile(sums.lateness, 0.5), percentile(sums.lateness, 0.99)]
      const attempts = sums.deliveries > 0 ? sums.attempts / sums.deliveries : undefined
      return { ...counts, letters, late50, late99, attempts }
    }),
  )
  return { queues, moreQueues: names.length - chosen.length }

  function isDead(name: string): boolean {
    return (deadLetters.get(name) ?? 0) > 0
  }
}

export async function sharedRows(
  state: DashboardState,
  most: number,
  withHolders: boolean,
  service: string | undefined,
) {
  const { summary, objects, holderNames } = state
  const [semaphores, rates] = [summary.names('semaphore', service), summary.names('rate', service)]
  const levels = summary.levels(service)
  const told = ({ object, name, inUse, waiting = 0, used, rate, intervalMs, reservoir }: LevelRow): SharedRow => ({
    kind: (used === undefined ? object : 'budget') as SharedRow['kind'],
    name,
    waiting,
    ...(used !== undefined && { inUse: used, of: rate, intervalMs }),
    ...(inUse !== undefined && { inUse }),
    ...(reservoir !== undefined && { reservoir }),
    ...(withHolders && object !== 'limiter' && object !== 'rate' && holderNames.places(object, name)),
  })
  const rowOf = async (kind: 'semaphore' | 'rate', name: string): Promise<SharedRow> => {
    const ask = () => (kind === 'rate' ? objects.rateRow(name) : objects.semaphoreRow(name, withHolders))
    const { row, leases }: ReadRow = await state.sharedRows
      .get(JSON.stringify([kind, name, withHolders]), ask)
      .catch(error => ({ row: { kind, ...unread(name)(error), waiting: 0 } }))
    if (leases !== undefined) {
      // Redis was asked before the last reports came, perhaps: who the holders are is told by these.
      const holders = holderNames.leases(name, leases.items)
      return { ...row, holders, moreHolders: leases.more }
    }
    // Permits and rates of which Redis knows nothing under this name are counted elsewhere, like those of politeFetch.
    const isElsewhere = row.of === undefined && row.unread === undefined
    const level = isElsewhere && levels.find(row => row.object === kind && row.name === name)
    return level ? { ...row, ...told(level) } : row
  }
  const rows = await Promise.all([
    ...semaphores.slice(0, most).map(name => rowOf('semaphore', name)),
    ...rates.slice(0, most).map(name => rowOf('rate', name)),
  ])
  const inProcesses = levels.filter(({ object }) => object !== 'semaphore' && object !== 'rate' && object !== 'queue')
  const shared: SharedRow[] = [...rows, ...inProcesses.slice(0, most).map(told)]
  return { shared, moreShared: semaphores.length + rates.length + inProcesses.length - shared.length }
}

/**
 * What is known of an object that did not answer: it stays on the page, since an operator may look for just this one.
 */
function unread(name: string): (error: unknown) => UnreadRow {
  return error => {
    const cause = (error as Error | undefined)?.cause ?? error
    // A deadline's error has no cause.
    const isSilent = cause instanceof StoreError
    return { name, unread: isSilent ? 'does not answer' : `cannot be read: ${replyWords(cause).slice(0, 200)}` }
  }
}
