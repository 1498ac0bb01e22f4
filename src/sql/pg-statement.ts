import type { Row, SentStatement } from './postgres-port.js'

/** The parts of a pool of pg 8 that are used. */
export interface PgPool {
  connect(): Promise<PgPooledClient>
}

/** The parts of one of its clients that are used. */
interface PgPooledClient {
  readonly host?: unknown
  readonly port?: unknown
  readonly processID?: unknown
  readonly secretKey?: unknown
  query(config: object): Promise<{ readonly rows: readonly Row[] }>
  /** With an error: its connection is dropped. */
  release(error?: unknown): void
  on(event: 'error', listener: () => void): unknown
  removeListener(event: 'error', listener: () => void): unknown
}

/**
 * A statement over a pool of pg. A client that the server has answered goes back to the pool, also after an error:
 * `pool.query` would close its connection.
 */
export class PooledStatement implements SentStatement {
  readonly rows: Promise<readonly Row[]>
  #client: PgPooledClient | undefined
  #isOver = false
  #drop: (error: Error) => void = () => {}

  constructor(pool: PgPool, config: object) {
    this.rows = new Promise((resolve, reject) => {
      this.#drop = reject
      pool.connect().then(client => {
        if (this.#isOver) {
          client.release()
          return
        }
        this.#client = client
        // Without a listener it would end the process; the query rejects, too.
        client.on('error', ignore)
        client.query(config).then(
          ({ rows }) => {
            this.#release()
            resolve(rows)
          },
          error => {
            this.#release((error as { severity?: unknown }).severity === 'ERROR' ? undefined : error)
            reject(error)
          },
        )
      }, reject)
    })
  }

  cancel(): void {
    if (this.#client !== undefined) sendCancel(this.#client)
  }

  drop(error: Error): void {
    this.#isOver = true
    this.#release(error)
    this.#drop(error)
  }

  #release(error?: unknown): void {
    const client = this.#client
    if (client === undefined) return
    this.#client = undefined
    client.removeListener('error', ignore)
    client.release(error)
  }
}

function ignore(): void {}

/** The number of a message that asks to cancel what a connection does, sent over a new connection. */
const CANCEL_REQUEST = 80877102
const CANCEL_WITHIN_MS = 1000

/** The protocol's own way: pg offers none. */
function sendCancel({ host, port, processID, secretKey }: PgPooledClient): void {
  if (typeof host !== 'string' || typeof processID !== 'number' || typeof secretKey !== 'number') return
  const net = globalThis.process?.getBuiltinModule?.('node:net')
  if (net === undefined) return
  const message = new DataView(new ArrayBuffer(16))
  for (const [i, number] of [16, CANCEL_REQUEST, processID, secretKey].entries()) message.setInt32(4 * i, number)
  const socket = host.startsWith('/')
    ? net.connect(`${host}/.s.PGSQL.${port}`)
    : net.connect({ host, port: Number(port) })
  socket.on('error', ignore)
  socket.setTimeout(CANCEL_WITHIN_MS, () => socket.destroy())
  socket.end(new Uint8Array(message.buffer))
}
