import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** examples/metrics.ts in its own process, and its output. */
export class ExampleService {
  readonly lines: string[] = []

  private constructor(
    readonly process: ChildProcess,
    readonly url: string,
  ) {}

  static async start(env: Record<string, string>): Promise<ExampleService> {
    const child = spawn(process.execPath, ['--import', 'tsx', 'examples/metrics.ts'], {
      env: { ...process.env, PORT: '0', ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    process.once('exit', () => child.kill('SIGKILL'))
    const lines = createInterface({ input: child.stdout! })
    const [first] = (await once(lines, 'line')) as [string]
    const service = new ExampleService(child, /http:\/\/[\d.]+:\d+/.exec(first)?.[0] ?? '')
    lines.on('line', line => void service.lines.push(line))
    return service
  }

  /** Status codes by number, of so many requests sent side by side. */
  async ask(path: string, count: number, init?: RequestInit): Promise<Map<number, number>> {
    const statuses = new Map<number, number>()
    const one = async () => {
      const response = await fetch(this.url + path, init)
      await response.arrayBuffer()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
    }
    await Promise.all(Array.from({ length: count }, one))
    return statuses
  }

  async metrics(): Promise<string> {
    return (await fetch(`${this.url}/metrics`)).text()
  }

  /** The exit code. */
  async stop(): Promise<number | null> {
    const closed = once(this.process, 'close')
    this.process.kill('SIGTERM')
    return (await closed)[0]
  }
}
