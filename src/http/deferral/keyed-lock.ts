interface Line {
  end: Promise<unknown>
  length: number
}

/** Work that has a name in common is done one after another, in the order in which it was asked for. */
export class KeyedLock {
  readonly #lines = new Map<string, Line>()

  /** How much work is under way or waits under one of these names, at most. */
  waiting(names: readonly string[]): number {
    return Math.max(0, ...names.map(name => this.#lines.get(name)?.length ?? 0))
  }

  async hold<Result>(names: readonly string[], work: () => Promise<Result>): Promise<Result> {
    const before = names.map(name => this.#lines.get(name)?.end)
    const result = Promise.all(before).then(work)
    const end = result.catch(() => {})
    for (const name of names) {
      const line = this.#lines.get(name)
      if (line === undefined) this.#lines.set(name, { end, length: 1 })
      else {
        line.end = end
        line.length++
      }
    }
    try {
      return await result
    } finally {
      for (const name of names) {
        const line = this.#lines.get(name)
        if (line !== undefined && --line.length === 0) this.#lines.delete(name)
      }
    }
  }
}
