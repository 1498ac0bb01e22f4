// What is done to the servers and the processes of a run.
import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../../test/support/random.js'
import type { RedisServer } from '../../test/support/redis-server.js'
import type { Fault } from './history.js'
import type { Servers } from './servers.js'
import { now } from './subjects.js'

/** The processes of a run. */
export interface Processes {
  /** A name of those that run now. */
  any(): string
  signal(name: string, signal: NodeJS.Signals): void
  /** Starts one more. */
  start(): void
}

type Nemesis = () => Promise<unknown>
/** `mended`: nothing stands in the way any more. Not called: at its end. */
type Act = (mended: () => void) => Promise<unknown>

/** How long something lasts. */
export type Length = (leastMs: number, mostMs: number) => number

/** Others see the end of a fault a moment later. */
const SEEN_MS = 100
/** A replica that has taken over is known to all clients. */
const KNOWN_MS = 1000

export function nemeses(
  servers: Servers,
  processes: Processes,
  random: Random,
  faults: Fault[],
  length: Length = random.integer,
) {
  const during = async (whats: ReadonlyArray<Fault['what']>, act: Act, process?: string): Promise<void> => {
    const from = now()
    let mendedAt: number | undefined
    await act(() => {
      mendedAt = now()
    })
    mendedAt ??= now()
    const seenMs = whats.includes('failover') ? KNOWN_MS : SEEN_MS
    for (const what of whats) faults.push({ what, from, until: now() + seenMs, mendedAt, process })
  }
  const primary = async () => random.pick(await servers.primaries())
  const isSingle = servers.topology === 'single'
  // The sentinels replace a primary that says nothing for a second.
  const briefly = () => pause(length(20, servers.sentinel ? 500 : 1600))
  const shortly = () => pause(length(50, 1500))
  const door = async () => random.pick(servers.doors.get(await primary()) ?? [])
  const everyDoor = async (server: RedisServer) => servers.doors.get(server) ?? []

  const OF_SERVERS: Record<string, Nemesis> = {
    'a server stands still (SIGSTOP)': async () => {
      const server = await primary()
      await during(['hang'], async mended => {
        server.pause()
        await briefly()
        mended()
        server.unpause()
      })
    },
    'connections are killed': async () => {
      const server = await primary()
      await during(['cut'], () => servers.tell(server, 'CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
    },
    'half of the processes are cut off': async () => {
      const one = await door()
      await during(['hang'], async () => {
        one.swallow()
        await shortly()
        one.release()
      })
    },
    'no packet arrives': async () => {
      const all = await everyDoor(await primary())
      await during(['hang'], async mended => {
        for (const one of all) one.swallow()
        await briefly()
        mended()
        for (const one of all) one.release()
      })
    },
    'half of the processes are refused': async () => {
      const one = await door()
      await during(['cut'], async () => {
        await one.refuse()
        await shortly()
        await one.accept()
      })
    },
    'all answers are late (0 to 60 ms)': async () => {
      const all = await everyDoor(await primary())
      await during(['hang'], async () => {
        for (const one of all) one.delayMs = () => random.integer(0, 60)
        await pause(length(300, 2000))
        for (const one of all) one.delayMs = () => 0
      })
    },
    'a clock is set': async () => {
      const server = random.pick(servers.all)
      await during(['clock'], () =>
        servers.stepClock(server, random.pick([-1, 1]) * random.pick([60, 700, 5000, 50_000])),
      )
    },
    'a clock drifts': async () => {
      const server = random.pick(servers.all)
      const step = random.pick([-1, 1])
      await during(['clock'], async () => {
        for (let i = 0; i < 200; i++) {
          await servers.stepClock(server, step)
          await pause(10)
        }
      })
    },
    'all keys are lost (FLUSHALL)': async () => {
      const server = await primary()
      await during(['lost'], () => servers.tell(server, 'FLUSHALL'))
    },
    'scripts are forgotten (SCRIPT FLUSH)': async () => servers.tell(await primary(), 'SCRIPT', 'FLUSH'),
    'memory is full': async () => {
      const server = await primary()
      await during(['full'], async () => {
        await servers.tell(server, 'CONFIG', 'SET', 'maxmemory', '1')
        await shortly()
        await servers.tell(server, 'CONFIG', 'SET', 'maxmemory', '0')
      })
    },
    'a server dies and comes back empty': async () => {
      const server = await primary()
      await during(['lost', 'cut', ...(isSingle ? [] : (['failover'] as const))], async () => {
        if (isSingle) {
          await server.kill()
          await briefly()
        }
        await server.restart()
        if (!isSingle) await servers.whole()
      })
    },
  }
  const OF_SINGLES: Record<string, Nemesis> = {
    'a server becomes a replica': async () => {
      const server = await primary()
      await during(['full'], async () => {
        // Of a server that does not exist: its data stay, as on a replica that was a primary a moment ago.
        await servers.tell(server, 'REPLICAOF', '127.0.0.1', '1')
        await shortly()
        await servers.tell(server, 'REPLICAOF', 'NO', 'ONE')
      })
    },
  }
  const OF_REPLICAS: Record<string, Nemesis> = {
    'a server dies, its replica takes over': async () => {
      const server = await primary()
      await during(['failover', 'cut'], async mended => {
        await server.kill()
        await servers.replaced(server)
        mended()
        // Until the sentinels have told it, it takes itself for a primary.
        await server.restart()
        await servers.whole()
      })
    },
    'a replica takes over a server that lives': async () => {
      const server = await primary()
      await during(['failover', 'cut'], () => servers.failover(server))
      await servers.whole()
    },
    'a server stands still until its replica has taken over': async () => {
      const server = await primary()
      await during(['failover', 'cut'], async () => {
        server.pause()
        await servers.replaced(server)
        server.unpause()
        await servers.whole()
      })
    },
    'a replica dies': async () => {
      const server = await servers.replicaOf(await primary())
      await during(['cut'], async () => server?.restart())
      await servers.whole()
    },
  }
  const OF_SLOTS: Record<string, Nemesis> = {
    'a slot moves': () => during(['moved'], () => servers.moveSlot(choices => random.pick(choices))),
  }
  const OF_PROCESSES: Record<string, Nemesis> = {
    'a process stands still (SIGSTOP)': async () => {
      const name = processes.any()
      const act = async () => {
        processes.signal(name, 'SIGSTOP')
        await pause(random.integer(20, 2500))
        processes.signal(name, 'SIGCONT')
      }
      await during(['stopped'], act, name)
    },
    'a process dies, another starts': async () => {
      const name = processes.any()
      await during(['killed'], async () => processes.signal(name, 'SIGKILL'), name)
      processes.start()
    },
  }
  const ofServers = { ...OF_SERVERS, ...(isSingle ? OF_SINGLES : OF_REPLICAS), ...(servers.cluster ? OF_SLOTS : {}) }
  return { ofServers, ofProcesses: OF_PROCESSES }
}

/**
 * Does what the seed says until the time is over: each of them once before any comes again. `doing`: what is going on.
 */
export async function torment(
  all: Readonly<Record<string, Nemesis>>,
  random: Random,
  until: number,
  counts: Map<string, number>,
  doing: Set<string>,
): Promise<void> {
  let left: string[] = []
  while (now() < until) {
    await pause(random.integer(500, 4000))
    if (left.length === 0) left = Object.keys(all)
    const name = random.pick(left)
    left = left.filter(one => one !== name)
    counts.set(name, (counts.get(name) ?? 0) + 1)
    doing.add(name)
    await all[name]().catch(error => {
      throw new Error(`${name}: ${error.message}; before it: ${[...counts.keys()].join(', ')}`, { cause: error })
    })
    doing.delete(name)
  }
}
