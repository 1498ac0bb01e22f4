/**
 * The house from the ground up: [floor, ...files and folders of src/]. A file imports from its own folder and from the
 * rows above its own in this list, so folders of one row do not know each other. A new folder is given its row here.
 */
export const FLOORS: readonly (readonly [floor: number, ...rooms: string[]])[] = [
  [0, 'core/'],
  [0, 'testing.ts'],
  [1, 'algorithms/', 'redis/'],
  [2, 'waiting/'],
  [2, 'stores/'],
  [3, 'limiter/', 'semaphore/', 'delay-queue/'],
  [3, 'shared-rate/'],
  [4, 'observing/', 'live/', 'adaptive/'],
  [5, 'http/'],
  [6, 'adapters/'],
  [6, 'express-rate-limit/', 'koa-ratelimit/', 'rate-limiter-flexible/', 'bottleneck/', 'outgoing/'],
  [6, 'dashboard/'],
  [7, 'cli/'],
  [8, 'index.ts'],
]

/** The file or folder of the table that a file of src/ belongs to, and its row; undefined if it has no place. */
export function roomOf(file: string): { room: string; row: number } | undefined {
  const [first, ...rest] = file.replace(/^src\//, '').split('/')
  const room = rest.length > 0 ? `${first}/` : first
  const row = FLOORS.findIndex(([, ...rooms]) => rooms.includes(room))
  return row < 0 ? undefined : { room, row }
}

/** What is wrong with one import between files of ours; undefined if nothing. */
export function complaint(from: string, to: string): string | undefined {
  const [here, there] = [roomOf(from), roomOf(to)]
  if (!here) return `${from} has no floor`
  if (!there) return `${from} imports ${to}, which is not in src/ or has no floor`
  if (here.room === there.room && here.room.endsWith('/')) return undefined
  if (there.row < here.row) return undefined
  return `${from} imports ${there.row > here.row ? 'upward' : 'sideways'}: ${to}`
}

/** The files on a circle of imports, in order, the first one repeated; undefined if there is none. */
export function cycleIn(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>()
  const walk = (file: string, path: string[]): string[] | undefined => {
    const at = path.indexOf(file)
    if (at >= 0) return [...path.slice(at), file]
    if (done.has(file)) return undefined
    for (const next of graph.get(file) ?? []) {
      const cycle = walk(next, [...path, file])
      if (cycle) return cycle
    }
    done.add(file)
    return undefined
  }
  for (const file of graph.keys()) {
    const cycle = walk(file, [])
    if (cycle) return cycle
  }
  return undefined
}
