import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, test } from '@jest/globals'
import { compileExamples } from '../../test/support/compiled-examples.js'
import { eventually } from '../../test/support/eventually.js'
import { RedisServer } from '../../test/support/redis-server.js'

/** Longer than any call waits. */
const HANGS_MS = 6000
const GONE_MS = 1000

const FAULTS: Readonly<Record<string, (redis: RedisServer) => Promise<void>>> = {
  async hangs(redis) {
    redis.pause()
    await sleep(HANGS_MS)
    redis.unpause()
  },
  async 'is killed'(redis) {
    await redis.kill()
    await sleep(GONE_MS)
    await redis.restart()
  },
}

/** Services, and what is asked of them: method, path, status. */
const SERVICES: ReadonlyArray<readonly [file: string, ...asks: Array<readonly [string, string, number]>]> = [
  ['dashboard.ts', ['GET', '/', 200], ['GET', '/limits/', 200]],
  ['metrics.ts', ['GET', '/', 200], ['GET', '/report', 200], ['POST', '/mails/ann@example.com', 202]],
]

const GIVES_UP = /^\w+.*: Redis failed: \w/m
/** Programs that end by themselves: what they have said when Redis goes, and what they say when they are done. */
const PROGRAMS: ReadonlyArray<readonly [file: string, said: RegExp | undefined, done: RegExp]> = [
  ['bottleneck.ts', /has failed once/, /not the last$/],
  ['defer.ts', /accepted in/, /lost: 0$/m],
  ['live.ts', /passed/, /all 5\/1m$/],
  ['many-processes.ts', /Two servers/, /together\.$/],
  ['mutex.ts', /works/, /carol"$/],
  ['polite-fetch.ts', undefined, /60 calls at 20 per second/],
  ['shared-rate.ts', /20 workers/, /100 calls in/],
]
/** These give up where Redis stays away for five seconds, or refuses a change. */
const GIVE_UP = ['live.ts', 'mutex.ts']

const folder = compileExamples()
const running = new Set<ChildProcess>()
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

/** An example over a Redis of its own, which keeps what it was told when it is killed. */
class Example {
  output = ''
  readonly closed: Promise<unknown[]>

  private constructor(
    readonly redis: RedisServer,
    readonly child: ChildProcess,
  ) {
    running.add(child)
    this.closed = once(child, 'close')
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', data => (this.output += data))
  }

  static async start(file: string): Promise<Example> {
    const redis = await RedisServer.start({ args: ['--appendonly', 'yes'] })
    const child = spawn(process.execPath, [join(folder, file.replace('.ts', '.mjs'))], {
      env: { ...process.env, PORT: '0', REDIS_URL: redis.url },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    return new Example(redis, child)
  }

  async says(text: RegExp): Promise<string> {
    const said = () => {
      const found = text.exec(this.output)
      if (found === null) throw new Error(this.output)
      return found
    }
    // Several start at once, with processes of their own.
    return (await eventually(`it says ${text}`, said, 30_000))[0]
  }

  /** What a reader can do nothing with: the trace of an error that nobody has caught, or none has listened to. */
  get traces(): string[] {
    return this.output.split('\n').filter(line => /^\s+at |Unhandled|^Node\.js v/.test(line))
  }
}

describe('no example dies of its Redis, or leaves its user with the trace of an error', () => {
  test.concurrent.each(SERVICES)(
    '%s answers while Redis hangs and after it was killed, and as before once it is back',
    async (file, ...asks) => {
      const example = await Example.start(file)
      const url = await example.says(/http:\/\/[\d.]+:\d+/)
      const answer = async ([method, path]: readonly [string, string, number]) => {
        const reply = await fetch(url + path, { method })
        await reply.arrayBuffer()
        return reply.status
      }
      const usual = asks.map(([, , status]) => status)
      expect(await Promise.all(asks.map(answer))).toEqual(usual)
      for (const fault of Object.values(FAULTS)) {
        const over = fault(example.redis)
        // Each is answered, also if by a status that says that something is missing.
        await Promise.all(asks.map(answer))
        await over
        await eventually(`${file} answers as before`, async () =>
          expect(await Promise.all(asks.map(answer))).toEqual(usual),
        )
      }
      expect(example.child.exitCode).toBeNull()
      expect(example.traces).toEqual([])
      example.child.kill('SIGTERM')
      expect(await example.closed).toEqual([0, null])
      await example.redis.stop()
    },
    60_000,
  )

  const rows = PROGRAMS.flatMap(([file, said, done]) =>
    Object.keys(FAULTS).map(fault => [file, fault, said, done] as const),
  )
  test.concurrent.each(rows)(
    '%s does its work though Redis %s, or says why it gives up',
    async (file, fault, said, done) => {
      const example = await Example.start(file)
      if (said === undefined) await sleep(1500)
      else await example.says(said)
      await FAULTS[fault](example.redis)
      const [code] = await example.closed
      expect(example.output.trim()).toMatch(code === 1 && GIVE_UP.includes(file) ? GIVES_UP : done)
      expect(example.traces).toEqual([])
      await example.redis.stop()
    },
    60_000,
  )
})
