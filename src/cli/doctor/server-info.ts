import { type Connection, fieldsOf, type Reply, ReplyError } from '../redis-connection.js'

const SETTINGS = ['save', 'timeout', 'tcp-keepalive', 'stop-writes-on-bgsave-error', 'cluster-require-full-coverage']

/** The answers of a server to INFO and CONFIG GET. */
export interface ServerInfo {
  /** Undefined if INFO has no such field, or is not permitted. */
  info(field: string): string | undefined
  /** As `info`, as a number. */
  number(field: string): number | undefined
  /** Undefined if CONFIG is not permitted. */
  setting(name: string): string | undefined
  /** Why INFO was refused. */
  readonly refused: string | undefined
}

export async function readServerInfo(connection: Connection): Promise<ServerInfo> {
  const [told, ...settings] = await Promise.all([
    connection.ask('INFO'),
    ...SETTINGS.map(name => connection.ask('CONFIG', 'GET', name)),
  ])
  const fields = fieldsOf(told)
  const values = new Map(settings.flatMap(pairOf))
  return {
    info: field => fields?.get(field),
    number(field) {
      const text = fields?.get(field)
      return text === undefined || text === '' || Number.isNaN(Number(text)) ? undefined : Number(text)
    },
    setting: name => values.get(name),
    refused: told instanceof ReplyError ? told.message : undefined,
  }
}

function pairOf(reply: Reply): (readonly [string, string])[] {
  if (!Array.isArray(reply) || reply.length < 2) return []
  return [[String(reply[0]), String(reply[1])]]
}
