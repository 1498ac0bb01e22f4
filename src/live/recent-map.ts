/**
 * A bounded map that keeps recently used entries: in two halves, of which the older is dropped when the younger is full. A look-up takes one or
 * two steps; the map keeps the last `size` / 2 to `size` used entries.
 */
export class RecentMap<Value> {
  readonly #half: number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()

  constructor(size: number) {
    this.#half = Math.ceil(size / 2)
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  find(key: string): Value | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) {
      this.#old.delete(key)
      this.set(key, old)
    }
    return old
  }

  set(key: string, value: Value): void {
    this.#old.delete(key)
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }

  /** Adds an entry that was not requested, unless that would remove a requested one. Returns whether it did. */
  setIfRoom(key: string, value: Value): boolean {
    if (this.size >= this.#half) return false
    this.#old.set(key, value)
    return true
  }

  delete(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
  }

  keys(): string[] {
    return [...this.#old.keys(), ...this.#young.keys()]
  }
}
