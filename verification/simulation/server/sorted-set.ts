/** A sorted set: by score, then by the bytes of the member. */
export class SortedSet {
  readonly scores = new Map<string, number>()
  #sorted: string[] | undefined = []

  get size(): number {
    return this.scores.size
  }

  /** In order. It is sorted when it is asked for. */
  get members(): readonly string[] {
    this.#sorted ??= [...this.scores.keys()].sort((one, two) => this.#compare(one, two))
    return this.#sorted
  }

  set(member: string, score: number): void {
    const before = this.scores.get(member)
    if (before === score) return
    this.scores.set(member, score)
    const last = this.#sorted?.at(-1)
    // What goes up is set at the end.
    if (before !== undefined || (last !== undefined && this.#compare(last, member) > 0)) this.#sorted = undefined
    else this.#sorted?.push(member)
  }

  delete(member: string): boolean {
    if (!this.scores.delete(member)) return false
    if (this.#sorted !== undefined) this.#sorted.splice(this.#sorted.indexOf(member), 1)
    return true
  }

  score(member: string): number {
    return this.scores.get(member) as number
  }

  /** The members whose scores lie in a range, in order. */
  between({ low, high, aboveLow, belowHigh }: ScoreRange): string[] {
    return this.members.filter(member => {
      const score = this.score(member)
      return (aboveLow ? score > low : score >= low) && (belowHigh ? score < high : score <= high)
    })
  }

  #compare(one: string, two: string): number {
    return this.score(one) - this.score(two) || (one < two ? -1 : 1)
  }
}

export interface ScoreRange {
  readonly low: number
  readonly high: number
  readonly aboveLow: boolean
  readonly belowHigh: boolean
}
