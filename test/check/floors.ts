/**
 * The house, from the ground up: [floor of the design, files and folders of src/]. A row imports only from rows above it in
 * this list, so files of one row do not know each other; files of one folder do. A new file or folder is given its place here.
 */
export const FLOORS: readonly (readonly [floor: number, ...rooms: string[]])[] = [
  [0, 'clock.ts', 'errors.ts'],
  [0, 'cost.ts', 'duration.ts', 'testing.ts'],
  [1, 'limit.ts'],
  [1, 'decision.ts'],
  [2, 'algorithms/', 'waiting/'],
  [3, 'store.ts', 'redis/'],
  [3, 'observer.ts'],
  [4, 'stores/'],
  [5, 'breaker.ts', 'deadline.ts', 'limiter-key.ts', 'procession.ts', 'settlement.ts'],
  [5, 'inquiry.ts', 'ruling.ts', 'turns.ts'],
  [5, 'guarded-store.ts'],
  [5, 'booked-turns.ts', 'lone-limit.ts'],
  [5, 'deny-cache.ts', 'failure.ts'],
  [5, 'decider.ts', 'limiter-options.ts'],
  [5, 'limiter.ts'],
  [6, 'shared/'],
  [6, 'http/'],
  [7, 'adapters/', 'cli/'],
  [7, 'express-rate-limit/'],
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
