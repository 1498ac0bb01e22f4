const SLOTS = 16_384

/** How slots are split in practice: by `redis-cli --cluster create`, and by whoever rounds up. */
export const SPLITS: Record<string, (place: number, nodes: number) => number> = {
  rounded: (place, nodes) => Math.round((place * SLOTS) / nodes),
  'rounded up': (place, nodes) => Math.ceil((place * SLOTS) / nodes),
  'rounded down': (place, nodes) => Math.floor((place * SLOTS) / nodes),
}

/** By how many the numbers of tags on two nodes differ at most. */
export function spread(
  slots: readonly number[],
  nodes: number,
  startOf: (place: number, nodes: number) => number,
): number {
  const counts = new Array<number>(nodes).fill(0)
  let node = 0
  for (const slot of slots) {
    while (slot >= startOf(node + 1, nodes)) node++
    counts[node]++
  }
  return Math.max(...counts) - Math.min(...counts)
}
