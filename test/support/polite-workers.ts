import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Called, Calls } from './polite-worker.js'

/**
 * Processes that call a partner through `politeFetch`, each with a client of its own. End with the process that started
 * them.
 */
export class PoliteWorkers {
  private constructor(readonly processes: readonly ChildProcess[]) {}

  static async start(count: number, redisUrl: string): Promise<PoliteWorkers> {
    const processes = Array.from({ length: count }, () =>
      fork('test/support/polite-worker.ts', [redisUrl], {
        execArgv: ['--import', 'tsx'],
        env: { ...process.env, NODE_OPTIONS: '' },
      }),
    )
    await Promise.all(processes.map(worker => once(worker, 'message')))
    return new PoliteWorkers(processes)
  }

  /** Has each worker make so many calls; gives how often each status was the last. */
  async call(calls: Calls): Promise<Record<string, number>> {
    const all = await Promise.all(
      this.processes.map(async worker => {
        worker.send(calls)
        const [called] = (await once(worker, 'message')) as [Called]
        return called.statuses
      }),
    )
    const sums: Record<string, number> = {}
    for (const statuses of all) {
      for (const [status, count] of Object.entries(statuses)) sums[status] = (sums[status] ?? 0) + count
    }
    return sums
  }

  stop(): void {
    for (const worker of this.processes) worker.kill('SIGKILL')
  }
}
