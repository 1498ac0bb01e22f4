import { type ChildProcess, fork } from 'node:child_process'
import { resolve } from 'node:path'
import type { ClientKind, Order, Report, Scene } from './load/scene.js'

export { epochMs, type Place, type Report, type Scene } from './load/scene.js'

const KINDS: readonly ClientKind[] = ['ioredis', 'ioredis5', 'node-redis']

/** Three processes, each with another client, that ask the same limiter as fast as it answers. */
export class Load {
  private constructor(readonly members: readonly Member[]) {}

  static async start(): Promise<Load> {
    const members = KINDS.map(kind => new Member(kind))
    await Promise.all(members.map(member => member.answer()))
    return new Load(members)
  }

  /** Resolves when every process has its answers from Redis. */
  async begin(scene: Scene): Promise<void> {
    await this.#tell(kind => ({ order: 'begin', scene, client: kind }))
    await this.back(0)
    await this.#tell(() => ({ order: 'time' }))
  }

  /** How long after `since` the processes had their answers from Redis again, for good; by client, in ms. */
  async back(since: number): Promise<Record<ClientKind, number>> {
    const moments = (await this.#tell(() => ({ order: 'back', since, timeoutMs: 12_000 }))) as number[]
    return Object.fromEntries(KINDS.map((kind, i) => [kind, moments[i] - since])) as Record<ClientKind, number>
  }

  /** Bytes in use of each heap after a collection. */
  async heaps(): Promise<number[]> {
    return (await this.#tell(() => ({ order: 'heap' }))) as number[]
  }

  async end(): Promise<Report[]> {
    return (await this.#tell(() => ({ order: 'end' }))) as Report[]
  }

  stop(): void {
    for (const member of this.members) member.stop()
  }

  #tell(order: (kind: ClientKind) => Order): Promise<unknown[]> {
    return Promise.all(this.members.map(member => member.tell(order(member.kind))))
  }
}

class Member {
  readonly #child: ChildProcess
  #said = ''

  constructor(readonly kind: ClientKind) {
    this.#child = fork(resolve('test/support/load/process.ts'), {
      execArgv: ['--import', 'tsx', '--expose-gc'],
      env: { ...process.env, NODE_OPTIONS: '' },
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', data => {
        this.#said = (this.#said + data).slice(-10_000)
      })
    }
  }

  tell(order: Order): Promise<unknown> {
    const answer = this.answer()
    this.#child.send(order)
    return answer
  }

  answer(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null) => reject(new Error(`${this.kind} ended with ${code}:\n${this.#said}`))
      this.#child.once('exit', onExit)
      this.#child.once('message', (message: { answer?: unknown; error?: string }) => {
        this.#child.off('exit', onExit)
        if (message.error === undefined) resolve(message.answer)
        else reject(new Error(`${this.kind}: ${message.error}`))
      })
    })
  }

  stop(): void {
    this.#child.removeAllListeners('exit')
    this.#child.kill('SIGKILL')
  }
}
