interface Line {
  end: Promise<unknown>
  length: number
}

/** Tasks that share a name run one after another, in the order of their requests. */
export class KeyedLock {
  readonly #lines = new Map<string, Line>()

  /** The most tasks that run or wait under one of these names. */
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
