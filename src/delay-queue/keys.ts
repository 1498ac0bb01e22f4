/** The keys of a queue, in the order in which every script of it takes them: see lua/lib/queue_keys.lua. */
export function queueKeys(base: string): readonly string[] {
  return ['delayed', 'unacked', 'messages', 'tries', 'ttls', 'dead', 'graves', 'wake', 'called', 'cleared'].map(
    part => `${base}:${part}`,
  )
}

/** Which of them idle processes block on. */
export const WAKE = 7
