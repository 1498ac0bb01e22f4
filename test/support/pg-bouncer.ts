import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from './free-port.js'
import { ADMIN, ownedFolder, program, serverUser } from './postgres-server.js'
import { PortTakenError, ServerProcess } from './server-process.js'

/**
 * A PgBouncer in transaction mode before the PostgreSQL on `port`: each transaction may run on another of its
 * connections.
 */
export class PgBouncer {
  readonly port: number
  readonly #process: ServerProcess
  readonly #dir: string

  private constructor(port: number, process: ServerProcess, dir: string) {
    this.port = port
    this.#process = process
    this.#dir = dir
  }

  /** `connections`: the most to PostgreSQL, for each database. */
  static async start(server: { readonly port: number }, connections = 4): Promise<PgBouncer> {
    const dir = await ownedFolder('spillway-pgbouncer-')
    const file = join(dir, 'pgbouncer.ini')
    for (let tries = 0; ; tries++) {
      const port = await freePort()
      await writeFile(file, configuration(port, server.port, connections))
      try {
        const process = await ServerProcess.start({
          command: program('pgbouncer'),
          args: [file],
          dir,
          user: serverUser(),
          ready: /process up/,
          portTaken: /in use|cannot listen/i,
        })
        return new PgBouncer(port, process, dir)
      } catch (error) {
        if (error instanceof PortTakenError && tries < 20) continue
        await rm(dir, { recursive: true, force: true })
        throw error
      }
    }
  }

  url(database = 'postgres'): string {
    return `postgres://${ADMIN}@127.0.0.1:${this.port}/${database}`
  }

  async stop(): Promise<void> {
    await this.#process.kill()
    await rm(this.#dir, { recursive: true, force: true })
  }
}

function configuration(port: number, serverPort: number, connections: number): string {
  return `[databases]
* = host=127.0.0.1 port=${serverPort} user=${ADMIN}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = ${connections}
ignore_startup_parameters = extra_float_digits
`
}
