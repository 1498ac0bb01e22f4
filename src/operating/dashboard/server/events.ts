import type { ClientPort, RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { runScript } from '../../../redis/script.js'
import { dashboardEvents } from '../../../redis/scripts.js'
import { type AlertCondition, CONDITIONS, describeAlert } from '../../observing/alerts/conditions.js'
import { plural } from '../look/format.js'
import { type Happening, type RecordKeys, readHappening } from '../records.js'
import { moment } from '../shapes.js'
import type { ChangeView, EventView } from '../view.js'
import { FORMATS_OF_MOST } from './alerts.js'

/** As many are read; in Redis are at most 1000, of a day. */
const MOST = 300
/** What was told so lately still lasts: processes tell of it every 10 s. */
const LASTS_MS = 25_000
const DAY_MS = 86_400_000

/** An event as processes have told it. */
interface HappenedEvent {
  readonly id: string
  readonly what: Happening
  readonly from: number
  readonly to: number
  readonly count: number
  readonly value: number
  readonly reason: string
}

export interface Happened {
  readonly events: readonly HappenedEvent[]
  /** How many more there are. */
  readonly more: number
}

/** What has happened in the last day. */
export class EventHistory {
  readonly #port: ClientPort

  constructor(
    client: RedisClient,
    readonly keys: RecordKeys,
  ) {
    this.#port = portOf(client, 'dashboard')
  }

  async list(): Promise<Happened> {
    const [total, ...parts] = (await runScript(this.#port, dashboardEvents, this.keys.events.slice(0, 2), [
      String(MOST),
    ])) as [number, ...string[]]
    const events: HappenedEvent[] = []
    for (let i = 0; i < parts.length; i += 3) {
      const event = readEvent(String(parts[i]), Number(parts[i + 1]), String(parts[i + 2]))
      if (event !== undefined) events.push(event)
    }
    return { events, more: Math.max(0, total - parts.length / 3) }
  }
}

/** Undefined for what is none: any client may write there. */
function readEvent(member: string, end: number, facts: string): HappenedEvent | undefined {
  const [, at, id = ''] = /^(\d+) (.*)$/s.exec(member) ?? []
  const [from, to, what] = [moment(Number(at)), moment(end), readHappening(id)]
  if (from === undefined || to === undefined || what === undefined) return undefined
  const [, counted = '0', value = '0', reason = ''] = /^(\S+) (\S+) (.*)$/s.exec(facts) ?? []
  return { id: member, what, from, to, count: Number(counted) || 0, value: Number(value) || 0, reason }
}

/** The events of a day and the changes of it, the newest first. */
export function eventsOf(happened: Happened, changes: readonly ChangeView[], now: number): EventView[] {
  const told = happened.events.map(event => eventView(event, now))
  const changed = changes.map((change): EventView => {
    const { id, at, what, subject, key, user, before, after } = change
    const text = [before !== undefined && `before: ${before}`, after !== undefined && `now: ${after}`].filter(Boolean)
    return {
      id,
      kind: 'change',
      at,
      title: `${what}: ${subject}`,
      key,
      user,
      ...(text.length > 0 && { text: text.join(', ') }),
    }
  })
  return [...told, ...changed].filter(({ at, until = at }) => until > now - DAY_MS).sort((a, b) => b.at - a.at)
}

function eventView({ id, what, from, to, count: decisions, value, reason }: HappenedEvent, now: number): EventView {
  const lasts = now - to < LASTS_MS
  const span = { at: from, ...(lasts ? { lasts } : { until: to }) }
  switch (what.kind) {
    case 'deploy':
      return { id, kind: 'deploy', at: from, title: `${what.service} ${what.version} started` }
    case 'outage': {
      const words = decisions > 0 ? `${plural(decisions, 'decision')} without it. ` : ''
      return { id, kind: 'outage', ...span, title: `Redis did not answer ${what.service}`, text: `${words}${reason}` }
    }
    case 'alert': {
      const { rule, when, subject } = what
      if (!Object.hasOwn(CONDITIONS, when)) return { id, kind: 'alert', ...span, title: `${rule}: ${subject}` }
      const condition = when as AlertCondition
      const page = CONDITIONS[condition].of === 'queue' ? ('queues' as const) : ('limits' as const)
      const title = describeAlert(condition, subject, value, FORMATS_OF_MOST)
      return { id, kind: 'alert', ...span, title, text: `Rule ${rule}.`, page }
    }
  }
}
