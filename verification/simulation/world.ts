// The seeded world: time, timers and randomness of one schedule. Nothing in it waits for real time.
import timers from 'node:timers'
import { type Random, randomFrom } from '../../test/support/random.js'

const real = { ...timers, now: performance.now.bind(performance), dateNow: Date.now, random: Math.random }
let world: World | undefined
/**
 * Runs every tick and every promise that is due, as Node does behind each callback of the event loop. It is private to
 * Node, so each run of a world looks whether it still does that.
 */
const settle = (process as unknown as { _tickCallback(): void })._tickCallback

function expectSettles(): void {
  let ran = ''
  void Promise.resolve().then(() => {
    ran += ' a promise'
    process.nextTick(() => {
      ran += ' and its tick'
    })
  })
  settle()
  if (ran !== ' a promise and its tick') throw new Error(`process._tickCallback of this Node runs${ran || ' nothing'}`)
}

/** A variable of a module, with its first value: the bundle tells them. */
interface ModuleState {
  first(): unknown
  get(): unknown
  set(value: unknown): void
}

declare global {
  var moduleStates: ModuleState[] | undefined
}

/** A process of a schedule: its timers and messages wait while it stands still, and are gone when it has died. */
export class SimulatedProcess {
  isDead = false
  standsUntil = 0
  /** What its wall clock is ahead of the true time. */
  wallOffsetMs = 0
  /** The variables of its modules, while another process has its turn. */
  #variables: unknown[] | undefined

  constructor(
    readonly name: string,
    readonly bornAt: number,
  ) {}

  /** Gives the modules the variables of this process instead of those of another. */
  follow(other: SimulatedProcess | undefined): void {
    const states = globalThis.moduleStates ?? []
    if (other !== undefined) other.#variables = states.map(state => state.get())
    for (const [i, state] of states.entries())
      state.set(this.#variables === undefined ? state.first() : this.#variables[i])
  }
}

interface Event {
  at: number
  order: number
  readonly owner: SimulatedProcess | undefined
  readonly act: () => void
  isCancelled: boolean
}

/** What setTimeout and setInterval return. */
class Timer {
  event: Event | undefined

  constructor(
    readonly act: () => void,
    readonly ms: number,
    readonly repeats: boolean,
  ) {
    this.refresh()
  }

  refresh(): this {
    this.close()
    const { random } = current()
    this.event = current().after(this.ms + random.integer(0, 400) / 1000, () => {
      this.event = undefined
      if (this.repeats) this.refresh()
      this.act()
    })
    return this
  }

  close(): void {
    if (this.event !== undefined) this.event.isCancelled = true
    this.event = undefined
  }

  ref = () => this
  unref = () => this
  hasRef = () => true;

  [Symbol.dispose](): void {
    this.close()
  }
}

/**
 * The first moment of every schedule, ms: later than any real clock, so that what expires in it is still there in a
 * real server.
 */
export const START = 2_000_000_000_000

export class World {
  /** The true time. */
  now = START
  readonly random: Random
  /** The process whose turn it is. */
  process: SimulatedProcess | undefined
  events = 0
  /** Changes with each event: two equal schedules have the same. */
  trace = 0
  readonly #queue: Event[] = []
  #order = 0
  /** Whose variables the modules have. */
  #last: SimulatedProcess | undefined

  constructor(readonly seed: string) {
    this.random = randomFrom(`world ${seed}`)
  }

  /** Calls `act` in the process whose turn it is now, or in `owner`; null: outside of all processes. */
  after(ms: number, act: () => void, owner: SimulatedProcess | null | undefined = this.process): Event {
    const at = this.now + Math.max(0, ms)
    const event = { at, order: this.#order++, owner: owner ?? undefined, act, isCancelled: false }
    this.#add(event)
    return event
  }

  /** Ends when nothing is left to do before that time. */
  async run(until: number): Promise<void> {
    // From the event loop, since promises settle only where no promise is settling.
    await new Promise<void>((resolve, reject) => {
      real.setImmediate(() => {
        try {
          expectSettles()
          while (this.#queue.length > 0 && this.#queue[0].at <= until) this.#next()
          resolve()
        } catch (error) {
          reject(error)
        }
      })
    })
    this.process = undefined
    this.now = Math.max(this.now, until)
  }

  #next(): void {
    const [next] = this.#queue
    this.#take()
    const { owner, act } = next
    if (next.isCancelled || owner?.isDead) return
    this.now = Math.max(this.now, next.at)
    if (owner !== undefined && owner.standsUntil > this.now) {
      next.at = owner.standsUntil
      this.#add(next)
      return
    }
    this.process = owner
    if (owner !== undefined && owner !== this.#last) {
      owner.follow(this.#last)
      this.#last = owner
    }
    this.events++
    this.trace = (Math.imul(this.trace ^ (Math.round(next.at * 1000) | 0), 0x01000193) + next.order) | 0
    act()
    // All ticks and promises of this turn, as behind each callback of the event loop.
    settle()
  }

  /** A heap, the first event on top. */
  #add(event: Event): void {
    const queue = this.#queue
    let at = queue.push(event) - 1
    while (at > 0) {
      const above = (at - 1) >> 1
      if (!isBefore(event, queue[above])) break
      queue[at] = queue[above]
      at = above
    }
    queue[at] = event
  }

  #take(): void {
    const queue = this.#queue
    const last = queue.pop() as Event
    if (queue.length === 0) return
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      if (below >= queue.length) break
      if (below + 1 < queue.length && isBefore(queue[below + 1], queue[below])) below++
      if (!isBefore(queue[below], last)) break
      queue[at] = queue[below]
      at = below
    }
    queue[at] = last
  }
}

const isBefore = (one: Event, two: Event) => one.at < two.at || (one.at === two.at && one.order < two.order)

function current(): World {
  if (world === undefined) throw new Error('a timer was set outside of a schedule')
  return world
}

type Callback = (...args: unknown[]) => void

/** Puts the world in place of time, timers and randomness of this program; undefined: the real ones. */
export function enter(next: World | undefined): void {
  world = next
}

/** Once, before anything that is simulated is imported. */
export function install(): void {
  const set =
    (repeats: boolean) =>
    (act: Callback, ms: number | undefined, ...args: unknown[]) => {
      if (world === undefined) return (repeats ? real.setInterval : real.setTimeout)(act, ms, ...args)
      const delay = Math.trunc(Number(ms))
      return new Timer(() => act(...args), delay >= 1 && delay <= 2 ** 31 - 1 ? delay : 1, repeats)
    }
  const clear = (timer?: unknown) => {
    if (timer instanceof Timer) timer.close()
    else real.clearTimeout(timer as NodeJS.Timeout)
  }
  const setImmediate = (act: Callback, ...args: unknown[]) =>
    world === undefined ? real.setImmediate(act, ...args) : world.after(0, () => act(...args))
  const clearImmediate = (event?: object) => {
    if (event !== undefined && 'isCancelled' in event) event.isCancelled = true
    else real.clearImmediate(event as NodeJS.Immediate)
  }
  const replaced = { setTimeout: set(false), setInterval: set(true), setImmediate, clearImmediate }
  const all = { ...replaced, clearTimeout: clear, clearInterval: clear }
  Object.assign(globalThis, all)
  Object.assign(timers, all)
  performance.now = () => {
    if (world === undefined) return real.now()
    return world.now - (world.process?.bornAt ?? START)
  }
  Date.now = () => (world === undefined ? real.dateNow() : Math.floor(world.now + (world.process?.wallOffsetMs ?? 0)))
  Math.random = () => (world === undefined ? real.random() : world.random.integer(0, 0x7fffffff) / 0x80000000)
  const fill = <T extends ArrayBufferView | null>(array: T): T => {
    if (array === null) return array
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
    for (let i = 0; i < bytes.length; i++) bytes[i] = current().random.integer(0, 255)
    return array
  }
  Object.defineProperty(crypto, 'getRandomValues', { value: fill, configurable: true })
  // What nobody holds any more would be gone at any moment.
  globalThis.WeakRef = class<T extends object> {
    readonly [Symbol.toStringTag] = 'WeakRef'
    constructor(readonly held: T) {}
    deref = () => this.held
  } as unknown as WeakRefConstructor
  process.emitWarning = () => {}
}
