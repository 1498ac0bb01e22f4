// What is promised, in its own numbers: an oracle that took them from the code would find any number right.

/** An answer counts as slow as a fifth of the interval at most, and as 250 ms at most. */
const longestAnswerMs = (intervalMs: number) => (intervalMs >= 1250 ? 250 : Math.floor(intervalMs / 5))
/** Ends of units are rounded up to whole thousandths of the interval, and to whole ms. */
const grainMs = (intervalMs: number) => (intervalMs < 2000 ? 1 : Math.floor(intervalMs / 1000))

export interface PlainBudget {
  readonly rate: number
  readonly intervalMs: number
}

export interface PlainCall {
  readonly id: number
  /** The budgets that it takes from, by index, with its units. */
  readonly costs: ReadonlyMap<number, number>
  readonly priority: number
  /** Whether it takes a place of the one partner that has some. */
  readonly hasPlace: boolean
  /** Over Redis: the process whose call it is. Without it, all are of one. */
  readonly process?: number
}

interface Entry {
  readonly id: number
  readonly budget: number
  end: number
  units: number
}

/**
 * What a line of calls promises, in the plainest way: every unit in one list, all waiters in another, both searched
 * whenever somebody asks.
 */
export class PlainBudgets {
  readonly waiting: PlainCall[] = []
  readonly granted: number[] = []
  readonly inside = new Set<number>()
  #entries: Entry[] = []
  /** Over Redis: the turns of the calls that wait, by their ids. */
  readonly #turns = new Map<number, number>()

  constructor(
    readonly budgets: readonly PlainBudget[],
    readonly places: number,
    readonly now: () => number,
    /**
     * Over Redis it depends on the order of asks which calls pass a first one that waits for something else: then the
     * calls that leave are told by `left`.
     */
    readonly follows = false,
  ) {}

  join(call: PlainCall): void {
    this.waiting.push(call)
    this.#turns.set(call.id, call.id)
    this.pass()
  }

  /** The process is killed: its calls wait no longer. */
  kill(process: number): void {
    const left = this.waiting.filter(call => call.process !== process)
    this.waiting.splice(0, this.waiting.length, ...left)
    this.pass()
  }

  /** When the next units end. */
  nextEnd(): number {
    return Math.min(...this.#entries.map(({ end }) => end))
  }

  leave(id: number): void {
    this.waiting.splice(
      this.waiting.findIndex(call => call.id === id),
      1,
    )
    this.pass()
  }

  /** The call is sent, and counts from now on. */
  send(id: number): void {
    for (const entry of this.#entries) {
      if (entry.id === id) entry.end = this.#lastEnd(entry.budget)
    }
    this.pass()
  }

  answer(id: number): void {
    for (const entry of this.#entries) {
      if (entry.id === id) entry.end = Math.min(entry.end, this.#rounded(entry.budget, this.now()))
    }
    this.inside.delete(id)
    this.pass()
  }

  drop(id: number): void {
    this.#entries = this.#entries.filter(entry => entry.id !== id)
    this.inside.delete(id)
    this.pass()
  }

  /** What the call has cost counts from now on, however long ago it left. */
  settle(id: number, budget: number, units: number): void {
    this.#entries = this.#entries.filter(one => one.id !== id || one.budget !== budget)
    this.#entries.push({ id, budget, end: this.#rounded(budget, this.now()), units })
    this.pass()
  }

  used(budget: number): number {
    let sum = 0
    for (const entry of this.#entries) if (entry.budget === budget && entry.end > this.now()) sum += entry.units
    return sum
  }

  /** Lets calls leave that may; of a follower: others decide when. */
  pass(): void {
    this.#entries = this.#entries.filter(({ end }) => end > this.now())
    if (!this.follows) this.#walk(call => this.#leave(call))
  }

  /** The calls that may leave at this moment. */
  mayLeave(): number[] {
    this.#entries = this.#entries.filter(({ end }) => end > this.now())
    const [entries, inside, waiting, count] = [this.#entries, [...this.inside], [...this.waiting], this.granted.length]
    this.#entries = [...entries]
    this.#walk(call => this.#leave(call))
    // They leave when they are said to.
    this.#entries = entries
    this.inside.clear()
    for (const id of inside) this.inside.add(id)
    this.waiting.splice(0, this.waiting.length, ...waiting)
    return this.granted.splice(count)
  }

  /** A call has left. The one whose turn it has taken has its turn from now on. */
  left(id: number): void {
    const taken = this.#inOrder().find(({ call }) => call.id === id)?.turn as number
    const [passed] = [...this.#turns].find(([, turn]) => turn === taken) as [number, number]
    this.#turns.set(passed, this.#turns.get(id) as number).set(id, taken)
    this.#leave(this.waiting.find(call => call.id === id) as PlainCall)
  }

  /**
   * The calls that wait, by their turns: within a process and a kind, those of a higher priority have the first ones.
   */
  #inOrder(): { readonly call: PlainCall; readonly turn: number }[] {
    const byPriority = [...this.waiting].sort((a, b) => b.priority - a.priority || a.id - b.id)
    if (!this.follows) return byPriority.map((call, turn) => ({ call, turn }))
    const groups = new Map<string, PlainCall[]>()
    for (const call of byPriority) {
      const name = `${call.process} ${kindOf(call)}`
      groups.set(name, [...(groups.get(name) ?? []), call])
    }
    const all = [...groups.values()].flatMap(group => {
      const turns = group.map(({ id }) => this.#turns.get(id) as number).sort((a, b) => a - b)
      return group.map((call, index) => ({ call, turn: turns[index] }))
    })
    return all.sort((a, b) => a.turn - b.turn)
  }

  #walk(leave: (call: PlainCall) => void): void {
    const blocked = new Set<string>()
    const awaited = new Set<number | 'places'>()
    for (const { call } of this.#inOrder()) {
      const kind = kindOf(call)
      if (blocked.has(kind)) continue
      const lacking: (number | 'places')[] = [...call.costs]
        .filter(([budget, units]) => units > 0 && this.used(budget) + units > this.budgets[budget].rate)
        .map(([budget]) => budget)
      if (call.hasPlace && this.inside.size >= this.places) lacking.push('places')
      const wanted = [...call.costs].filter(([, units]) => units > 0).map(([budget]) => budget)
      const mayPass = !wanted.some(one => awaited.has(one)) && !(call.hasPlace && awaited.has('places'))
      if (lacking.length === 0 && mayPass) leave(call)
      else {
        blocked.add(kind)
        for (const one of lacking) awaited.add(one)
      }
    }
  }

  #leave(call: PlainCall): void {
    this.waiting.splice(this.waiting.indexOf(call), 1)
    this.granted.push(call.id)
    for (const [budget, units] of call.costs) {
      this.#entries.push({ id: call.id, budget, end: this.#lastEnd(budget), units })
    }
    if (call.hasPlace) this.inside.add(call.id)
  }

  /** How long a call that came now, and took from one budget only, would wait. */
  waitMs(budget: number, units: number): number {
    const { rate, intervalMs } = this.budgets[budget]
    const ends: number[] = []
    for (const entry of this.#entries) {
      if (entry.budget === budget) for (let unit = 0; unit < entry.units; unit++) ends.push(entry.end)
    }
    ends.sort((a, b) => a - b)
    const ahead = this.waiting.reduce((sum, { costs }) => sum + (costs.get(budget) ?? 0), 0)
    // Whoever goes first takes what ends first, and keeps it for an interval.
    for (let taken = 1; taken <= ahead + units; taken++) {
      const before = ends.length - rate
      ends.push((before < 0 ? this.now() : Math.max(this.now(), ends[before])) + intervalMs)
    }
    const last = ends.length - 1
    return Math.max(0, ends[last] - intervalMs - this.now())
  }

  /** When a call that is sent now stops to count, if its answer comes late. */
  #lastEnd(budget: number): number {
    return this.#rounded(budget, this.now() + longestAnswerMs(this.budgets[budget].intervalMs))
  }

  #rounded(budget: number, at: number): number {
    const { intervalMs } = this.budgets[budget]
    return Math.ceil((at + intervalMs) / grainMs(intervalMs)) * grainMs(intervalMs)
  }
}

function kindOf({ costs, hasPlace }: PlainCall): string {
  return `${[...costs.keys()]} ${hasPlace}`
}
