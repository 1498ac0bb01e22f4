/** The keys of a queue, in the order that all its scripts expect: see queue_keys in lua/lib/queue.lua. */
export function queueKeys(base: string): readonly string[] {
  return [
    'delayed',
    'unacked',
    'messages',
    'tries',
    'ttls',
    'dead',
    'graves',
    'wake',
    'called',
    'cleared',
    'clock',
  ].map(part => `${base}:${part}`)
}

/** The index of the key on which idle processes block. */
export const WAKE = 7
/** The key of the dead letters. */
export const DEAD = 5
