import type { AlgorithmName } from '../../../src/limiter/core/limit.js'
import { jsonFromChild } from '../../support/child.js'
import { START } from '../../support/stories.js'

/**
 * The bytes that a memory store takes for each of a number of keys, for algorithms with constant state. Measured in its
 * own process.
 */
export function bytesPerKey(keys: number): Promise<[AlgorithmName, number][]> {
  return jsonFromChild(
    `import { MemoryStore } from './src/limiter/memory/memory-store.ts'
     import { ManualClock } from './src/testing.ts'
     import { parseLimit } from './src/limiter/core/limit.ts'
     const held = () => { gc(); gc(); const { heapUsed, arrayBuffers } = process.memoryUsage(); return heapUsed + arrayBuffers }
     const figures = []
     for (const algorithm of ['fixed-window', 'token-bucket', 'sliding-counter']) {
       const store = new MemoryStore({ clock: new ManualClock(${START}) })
       const limit = parseLimit({ quota: 10, window: '1h', algorithm })
       const before = held()
       for (let i = 0; i < ${keys}; i++) store.consume([{ key: 'user:' + i, limit }], 1)
       figures.push([algorithm, Math.round((held() - before) / store.size)])
       store.close()
     }
     console.log(JSON.stringify(figures))`,
    { flags: ['--expose-gc'], timeoutMs: 60_000 },
  )
}
