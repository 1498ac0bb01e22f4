// One process of a run: writes down each operation when it is asked for and when it is answered. Ends by SIGTERM.
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { randomFrom } from '../../test/support/random.js'
import type { Fault, Operation, Subject } from './history.js'
import type { Place } from './servers.js'
import { now } from './subjects.js'
import { type Begun, failure } from './use.js'

/** How a process of a run is started, as JSON in its arguments. */
export interface ProgramOptions {
  readonly process: string
  readonly number: number
  readonly file: string
  readonly seed: string
  readonly subjects: readonly Subject[]
  readonly client: string
  readonly place: Place
  /** Pauses are so many times longer. */
  readonly pace: number
}

export const options = JSON.parse(process.argv[2]) as ProgramOptions
export const random = randomFrom(`${options.seed} ${options.process}`)
export const ms = (least: number, most: number) => pause(random.integer(least, most) * options.pace)
let ending = false
let lastId = 0
export const nextId = (): number => options.number * 10_000_000 + ++lastId
/** What was begun and has not been answered. */
const open = new Map<number, Operation>()
/** Longer than any timeout here. */
const ENDING_MS = 25_000
process.once('SIGTERM', () => {
  ending = true
  const end = () => {
    const said = [...open.values()].map(({ op, subject, key, askedAt }) => {
      return `${op} ${subject} ${key} for ${((now() - askedAt) / 1000).toFixed(1)} s`
    })
    console.log(`${options.process} (${options.client}) has not ended; unanswered: ${said.join(', ') || 'nothing'}`)
    process.exit(3)
  }
  setTimeout(end, ENDING_MS).unref()
})
// However the run ends, its processes do not outlive it.
process.stdin.resume().once('end', () => process.exit())

const write = (line: Operation | Fault): void => appendFileSync(options.file, `${JSON.stringify(line)}\n`)

let movedAt = now()
/**
 * Now. On a busy machine a process stands still now and then: it says so, as if somebody had stopped it. At each
 * operation, too: one that is killed when it has just moved again would not say it later.
 */
function moment(): number {
  const at = now()
  if (at - movedAt > 50) write({ what: 'stopped', from: movedAt, until: at, process: options.process })
  movedAt = at
  return at
}

/**
 * Does something, and writes down that it began and what came of it. Undefined: it failed, or was refused by an error.
 */
export async function recorded<T>(
  begun: Begun,
  act: () => Promise<T>,
  facts: (answer: T) => object = () => ({}),
): Promise<{ id: number; answer: T } | undefined> {
  const id = nextId()
  const operation = { id, process: options.process, askedAt: moment(), ...begun } as Operation
  write(operation)
  open.set(id, operation)
  try {
    const answer = await act()
    write({ ...operation, answeredAt: moment(), ...facts(answer) } as Operation)
    return { id, answer }
  } catch (error) {
    write({ ...operation, answeredAt: moment(), ...failure(error) } as Operation)
    return undefined
  } finally {
    open.delete(id)
  }
}

/** Whether the process was told to end. */
export const isEnding = (): boolean => ending

/** Until the process is told to end. */
export async function forever(act: () => Promise<unknown>): Promise<void> {
  while (!ending) await act()
}

/** Notes when the process stands still, also between its operations. */
export const watching = (): Promise<void> =>
  forever(async () => {
    await pause(10)
    moment()
  })
