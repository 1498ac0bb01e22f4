// A process of the audit: decides as fast as it can, and writes down what it was granted before anything else. A test
// forks it, stops it, and kills it.
import { openSync, writeSync } from 'node:fs'
import type { Verdict } from '../../../src/limiter/core/decision.js'
import type { Charge, Store } from '../../../src/limiter/store.js'
import { askStore } from '../counts.js'
import { AUDITED, DEADLINE_MS, GROUP_LIMITS, LOOPS, NEW_LIMIT } from './audited.js'

/** Runs until the parent says stop. */
export function auditWorker(store: Store, file: string): void {
  const log = openSync(file, 'a')
  const write = (...words: readonly unknown[]) => writeSync(log, `${words.join(' ')}\n`)
  let isStopped = false

  const decide = (charges: readonly Charge[]): Promise<{ verdicts: readonly Verdict[]; at: number } | undefined> =>
    new Promise(resolve => {
      const askedAt = performance.now()
      const from = Date.now()
      askStore(store, charges, 1, {
        endsAt: askedAt + DEADLINE_MS,
        resolve(verdicts, _, at) {
          // The server's clock is that of this machine.
          if ((at as number) < from || (at as number) > Date.now()) write('!', at, 'is not between', from, Date.now())
          resolve({ verdicts, at: at as number })
        },
        reject(error) {
          write('!', Math.round(performance.now() - askedAt), (error as Error).message)
          resolve(undefined)
        },
      })
    })

  const loop = async (next: () => readonly Charge[], name: string) => {
    while (!isStopped) {
      const charges = next()
      const decision = await decide(charges)
      if (!decision?.verdicts.every(({ allowed }) => allowed)) continue
      const { verdicts, at } = decision
      for (const [i, { key }] of charges.entries()) write(name, i, key, at, at + verdicts[i].resetAfterMs)
    }
  }

  const loops = Object.entries(AUDITED).flatMap(([name, limits]) => {
    const charges = limits.map(limit => ({ key: 'hot', limiter: name, limit }))
    return Array.from({ length: LOOPS }, () => loop(() => charges, name))
  })
  // Keys that are new to all processes, at about the same moment.
  const fresh = (of: number) => `${Math.floor(Date.now() / 20)}-${Math.floor(Math.random() * of)}`
  loops.push(loop(() => [{ key: fresh(2), limiter: 'new', limit: NEW_LIMIT }], 'new'))
  // Decisions over one to three rows, of which several decisions share some.
  loops.push(
    loop(() => {
      const keys = new Set(GROUP_LIMITS.map(() => fresh(4)))
      return [...keys].map((key, i) => ({ key, limiter: 'group', limit: GROUP_LIMITS[i] }))
    }, 'group'),
  )

  process.on('message', async () => {
    isStopped = true
    await Promise.all(loops)
    process.exit(0)
  })
  process.once('disconnect', () => process.exit(1))
  process.send?.('ready')
}
