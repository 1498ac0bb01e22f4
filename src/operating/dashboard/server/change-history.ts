import type { ClientPort, RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { runScript } from '../../../redis/script.js'
import { dashboardChanges, dashboardNoteChange } from '../../../redis/scripts.js'
import { listOf, moment, objectOf, parsed, type Shape, text } from '../shapes.js'
import type { ChangeRequest } from '../view.js'

/** An act with its key as it is. */
export type PlainChange = ChangeRequest & { readonly key?: string; readonly ref?: undefined }

/** A change by the dashboard, as stored in Redis. */
export interface NotedChange {
  readonly user?: string
  readonly what: string
  readonly subject: string
  readonly key?: string
  readonly before?: string
  readonly after?: string
  readonly until?: number
  readonly act: PlainChange
  /** The changes of live limits that it made: `changeId` of each. */
  readonly live?: readonly string[]
  readonly undo?: PlainChange
}

/** The history of changes by the dashboard: the newest 200, for 90 days. */
export class ChangeHistory {
  readonly #port: ClientPort

  constructor(
    client: RedisClient,
    readonly key: string,
  ) {
    this.#port = portOf(client, 'dashboard')
  }

  async note(change: NotedChange): Promise<void> {
    await runScript(this.#port, dashboardNoteChange, [this.key], [JSON.stringify(change)])
  }

  async list(): Promise<Array<NotedChange & { readonly at: number }>> {
    const lines = (await runScript(this.#port, dashboardChanges, [this.key], [])) as unknown[]
    return lines.flatMap(line => {
      const change = readChange(String(line))
      return change === undefined ? [] : [change]
    })
  }
}

/** What an act does is checked when it is carried out. */
const CHANGE_REQUEST: Shape<PlainChange> = given => {
  const { key } = (given ?? {}) as { readonly key?: unknown }
  const isKey = key === undefined || text(key) !== undefined
  return isKey ? objectOf({ act: text })(given) && (given as PlainChange) : undefined
}
const CHANGE: Shape<NotedChange> = objectOf<
  Pick<NotedChange, 'what' | 'subject' | 'act'>,
  Required<Omit<NotedChange, 'what' | 'subject' | 'act'>>
>(
  { what: text, subject: text, act: CHANGE_REQUEST },
  { user: text, key: text, before: text, after: text, until: moment, live: listOf(text), undo: CHANGE_REQUEST },
)

/** Undefined for an invalid change. */
function readChange(line: string): (NotedChange & { readonly at: number }) | undefined {
  const [, at, json] = /^(\d+) (.*)$/s.exec(line) ?? []
  const [notedAt, change] = [moment(Number(at)), parsed(json, CHANGE)]
  return notedAt === undefined || change === undefined ? undefined : { ...change, at: notedAt }
}

export type Noted = Awaited<ReturnType<ChangeHistory['list']>>
