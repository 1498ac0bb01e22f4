// Code that is wrong in a way that a test of its own once let pass, each: what that test must find.

import type { Mutant } from './mutants.js'

export interface TestMutant extends Mutant {
  /** The file of the test that must fail. */
  readonly test: string
  /** What its title contains, where other tests of the file have always found the mutant. */
  readonly title?: string
}

export const TEST_MUTANTS: readonly TestMutant[] = [
  {
    name: 'calls end 100 ms after their deadline, half of the time',
    file: 'src/limiter/core/clock.ts',
    text: '    pending.endsAt = endsAt\n',
    instead: '    pending.endsAt = endsAt + (Math.floor(performance.now() / 160) % 2 === 0 ? 0 : 100)\n',
    test: 'test/limiter/fallback.test.ts',
  },
  {
    name: 'close() of a semaphore computes for a second',
    file: 'src/waiting/semaphore/semaphore.ts',
    text: '    await this.#line.close(this.#closed)\n',
    instead: '    for (let i = 0; i < 3e9; i++);\n' + '    await this.#line.close(this.#closed)\n',
    test: 'test/shutdown.test.ts',
  },
  {
    name: 'one decision removes all expired keys at once',
    file: 'src/limiter/memory/sweeper.ts',
    text: '    for (let i = 0; i < STEPS_PER_INSERTION; i++) this.#step(table, nowMs)\n    this.#addOne',
    instead:
      '    for (let i = 0, before = 0; i < STEPS_PER_INSERTION || this.#size < before; i++) {\n' +
      '      before = this.#size\n' +
      '      this.#step(table, nowMs)\n' +
      '    }\n    this.#addOne',
    test: 'test/limiter/memory/memory.test.ts',
  },
  {
    name: 'the timer removes all expired keys at once',
    file: 'src/limiter/memory/sweeper.ts',
    text: '    while (left.length > 0 && performance.now() <= until)\n',
    instead: '    while (left.length > 0)\n',
    test: 'test/limiter/memory/memory.test.ts',
  },
  {
    name: 'a list of addresses is searched one by one for its first fifty',
    file: 'src/http/address/ranges.ts',
    text: '    for (const [length, networks] of this.#ipv4) if',
    instead:
      '    for (const [length, networks] of this.#ipv4) {\n' +
      '      let walked = 0\n' +
      '      for (const network of networks) if (network === maskIPv4(bits, length) || walked++ > 50) break\n' +
      '    }\n' +
      '    for (const [length, networks] of this.#ipv4) if',
    test: 'test/http/address/address-set.test.ts',
  },
  {
    name: 'a wait of koa-ratelimit is rounded down',
    file: 'src/replacing/koa-ratelimit/middleware.ts',
    text: 'Math.max(1, Math.ceil(count.resetAfterMs / 1000))',
    instead: 'Math.max(1, Math.floor(count.resetAfterMs / 1000))',
    test: 'test/replacing/koa-ratelimit/koa-ratelimit.test.ts',
  },
  {
    name: 'a semaphore that was deleted keeps its waiters until somebody creates it again',
    file: 'src/waiting/line/waiting-line.ts',
    text: 'else if (answer.code < 0) this.#endAll(this.#user.ended(answer.code))',
    instead: 'else if (answer.code < 0) this.#rejoin()',
    test: 'test/waiting/semaphore/waiting.test.ts',
    title: 'of a deleted semaphore',
  },
  {
    name: 'receive takes nothing',
    file: 'src/waiting/queue/delay-queue.ts',
    text: '      const deliveries = await receiving.deliveries()\n',
    instead: '      const deliveries: OpenDelivery<T>[] = []\n',
    test: 'test/waiting/queue/consumer.test.ts',
    title: 'wakes for a message that another consumer has taken',
  },
  {
    name: 'the store in memory cannot count denials',
    file: 'src/limiter/memory/memory-counts.ts',
    text: '  strike({ key, limit',
    instead: '  struck({ key, limit',
    test: 'test/limiter/memory/contract.test.ts',
  },
  {
    name: 'a slow answer counts for 260 ms',
    file: 'src/outgoing/account.ts',
    text: 'Math.min(250, Math.floor(intervalMs / 5))',
    instead: 'Math.min(260, Math.floor(intervalMs / 5))',
    test: 'test/outgoing/line.test.ts',
    title: 'grants the same calls at the same moments',
  },
  {
    name: 'ends of units are rounded to a 700th of the interval',
    file: 'src/outgoing/account.ts',
    text: 'Math.floor(intervalMs / 1000)',
    instead: 'Math.floor(intervalMs / 700)',
    test: 'test/outgoing/line.test.ts',
    title: 'grants the same calls at the same moments',
  },
  {
    name: 'a module keeps a map that all simulated processes share',
    file: 'src/limiter/deny-cache.ts',
    text: 'const CACHES = new WeakMap<Counts, Map<string, DenyCache>>()\n',
    instead:
      'const CACHES = new WeakMap<Counts, Map<string, DenyCache>>()\nexport const CALLS = new Map<string, number>()\n',
    test: 'verification/simulation/schedules.test.ts',
  },
  {
    name: 'an ask is too late although a copy of it may be in time',
    file: 'src/redis/timely-scripts.ts',
    text: 'copies !== undefined && now <= copies.latestMs',
    instead: 'false',
    test: 'test/redis/asked-too-late.test.ts',
  },
]
