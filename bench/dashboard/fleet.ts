import { parsePolicy } from '../../src/index.js'
import { detailsText, RecordKeys, stepOf } from '../../src/operating/dashboard/records.js'
import { limitFacts, limitId } from '../../src/operating/object-index.js'
import { portOf } from '../../src/redis/clients.js'
import { runScript } from '../../src/redis/script.js'
import { dashboardReport } from '../../src/redis/scripts.js'

export const PROCESSES = 200
export const LIMITS = 1000
/** Keys that each process tells of each of its limits: 100 in all. */
const KEYS = 20
const ROWS = 250
const COUNTS = '12345,123,0,0,11222,0,1246,0'
const REFUSING = '50,50,0,0,100,0,0,0'

/** What the reporters of 200 processes write, each with 5 of 1000 limits. */
export class Fleet {
  readonly keys = new RecordKeys('spillway')
  readonly #limits: ReadonlyArray<{ readonly id: string; readonly facts: string }>
  #number = 0

  constructor(
    readonly client: object,
    limits = LIMITS,
  ) {
    this.#limits = Array.from({ length: limits }, (_, i) => {
      const [limit] = parsePolicy(`${100 + i}/1m`)
      const facts = limitFacts(`limiter-${i}`, limit, { per: 'per address', store: 'redis' })
      return { id: limitId(`limiter-${i}`, limit), facts: JSON.stringify(facts) }
    })
  }

  /** The sums of the last 15 minutes, and the index of limits. */
  async fill(): Promise<void> {
    const last = stepOf(Date.now())
    for (let step = last - 89; step <= last; step++) await this.#sums(step, COUNTS, step === last)
  }

  /** One report of each process: 5 limits, 100 keys. */
  async report(): Promise<void> {
    const own = Math.ceil(this.#limits.length / PROCESSES)
    const step = stepOf(Date.now())
    for (let i = 0; i < PROCESSES; i++) {
      const first = (i * own) % this.#limits.length
      const rows = this.#limits.slice(first, first + own)
      const keysOf = rows.map((_, j) => [`limiter-${first + j}`, keyRows(i)] as const)
      const details = detailsText({ keys: new Map(keysOf), deliveries: [], levels: [] })
      await this.#report(step, `process-${i}`, rows, REFUSING, recordOf(i), details, [])
    }
  }

  async #sums(step: number, counts: string, isNoted: boolean): Promise<void> {
    for (let i = 0; i < this.#limits.length; i += ROWS) {
      const rows = this.#limits.slice(i, i + ROWS)
      await this.#report(step, 'first', rows, counts, recordOf(0), '', isNoted ? rows : [])
    }
  }

  #report(
    step: number,
    process: string,
    rows: Fleet['rows'],
    counts: string,
    record: object,
    details: string,
    notes: Fleet['rows'],
  ): Promise<unknown> {
    return runScript(
      portOf(this.client, 'bench'),
      dashboardReport,
      [
        ...this.keys.processes,
        this.keys.sums(step),
        this.keys.sums(0, 60_000),
        this.keys.sums(0, 600_000),
        ...this.keys.index,
        ...this.keys.events,
      ],
      [
        String(++this.#number),
        String(step),
        process,
        JSON.stringify(record),
        details,
        String(rows.length),
        ...rows.flatMap(({ id }) => [id, counts]),
        '0',
        '0',
        '0',
        '86400000',
        '10000',
        ...notes.flatMap(({ id, facts }) => [id, facts]),
      ],
    )
  }

  get rows() {
    return this.#limits
  }
}

/** Rates change from report to report. */
function keyRows(process: number) {
  return Array.from(
    { length: KEYS },
    (_, k) => [`203.0.${process}.${k}`, 10 + Math.random(), 1 + Math.random()] as const,
  )
}

function recordOf(i: number): object {
  return {
    service: `service-${i % 8}`,
    version: '1.2.3',
    host: `web-${i}`,
    pid: 4000 + i,
    startedAt: Date.now(),
    everyMs: 2000,
    perSecond: 123.4,
    answerMs: 0.4,
  }
}
