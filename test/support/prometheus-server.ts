import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from './eventually.js'
import { freePort } from './free-port.js'

/** One series of an answer. */
export interface Series {
  readonly metric: Readonly<Record<string, string>>
  /** Of a query: moment in s, and the value. */
  readonly value?: readonly [number, string]
  /** Of a range. */
  readonly values?: ReadonlyArray<readonly [number, string]>
}

/** A real Prometheus that scrapes one service once a second. It ends with the process that started it. */
export class PrometheusServer {
  private constructor(
    readonly url: string,
    readonly dir: string,
    readonly process: ChildProcess,
  ) {}

  /** `target` is where the service listens, `rules` a file of rules. */
  static async start(target: string, rules: string, scrapeEvery = '1s'): Promise<PrometheusServer> {
    const dir = mkdtempSync(join(tmpdir(), 'spillway-prometheus-'))
    const port = await freePort()
    copyFileSync(rules, join(dir, 'rules.yml'))
    writeFileSync(
      join(dir, 'prometheus.yml'),
      `global: { scrape_interval: ${scrapeEvery}, scrape_timeout: ${scrapeEvery}, evaluation_interval: 1s }
rule_files: [rules.yml]
scrape_configs:
  - job_name: example
    static_configs: [{ targets: ['${new URL(target).host}'] }]
`,
    )
    const server = spawn(
      'prometheus',
      [
        `--config.file=${join(dir, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(dir, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    )
    let log = ''
    server.stderr?.on('data', data => {
      log = (log + data).slice(-5000)
    })
    const started = new PrometheusServer(`http://127.0.0.1:${port}`, dir, server)
    process.once('exit', () => server.kill('SIGKILL'))
    await eventually('Prometheus answers', async () => {
      if (server.exitCode !== null) throw new Error(`prometheus ended:\n${log}`)
      return (await fetch(`${started.url}/-/ready`)).ok
    })
    return started
  }

  /** What an expression is now. Rejects with the words of Prometheus if it does not accept it. */
  query(expression: string): Promise<Series[]> {
    return this.#ask('query', { query: expression })
  }

  /** From one moment (s) to another. */
  range(expression: string, from: number, to: number, step: number): Promise<Series[]> {
    return this.#ask('query_range', {
      query: expression,
      start: String(from),
      end: String(to),
      step: String(step),
    })
  }

  /** The value of the only series of an expression; 0 if there is none. */
  async value(expression: string): Promise<number> {
    const [series] = await this.query(expression)
    return Number(series?.value?.[1] ?? 0)
  }

  /** The rules that it runs, by name, and what is wrong with each. */
  async rules(): Promise<Array<{ name: string; health: string; state: string; lastError?: string }>> {
    const { data } = (await (await fetch(`${this.url}/api/v1/rules`)).json()) as {
      data: { groups: Array<{ rules: Array<{ name: string; health: string; state: string; lastError?: string }> }> }
    }
    return data.groups.flatMap(({ rules }) => rules)
  }

  async stop(): Promise<void> {
    const gone = once(this.process, 'close')
    this.process.kill('SIGKILL')
    await gone
    rmSync(this.dir, { recursive: true, force: true })
  }

  async #ask(path: string, parameters: Record<string, string>): Promise<Series[]> {
    const response = await fetch(`${this.url}/api/v1/${path}`, {
      method: 'POST',
      body: new URLSearchParams(parameters),
    })
    const { status, error, data } = (await response.json()) as {
      status: string
      error?: string
      data: { result: Series[] }
    }
    if (status !== 'success') throw new Error(`Prometheus refuses ${parameters.query}: ${error}`)
    return data.result
  }
}

/** Runs promtool, and gives what it said. */
export function promtool(args: readonly string[], input?: string): { ok: boolean; output: string } {
  const { status, stdout, stderr, error } = spawnSync('promtool', args, { input, encoding: 'utf8' })
  if (error) throw error
  return { ok: status === 0, output: stdout + stderr }
}
