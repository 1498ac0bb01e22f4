/** Most values per label. Names come from code and are few; but names derived from requests must not fill a monitoring system. */
const MOST_VALUES = 1000
/** Stands for all further ones. */
const OTHER_VALUES = 'other'

/** The values of one label, bounded in number. */
export class LabelValues {
  readonly #known = new Set<string>()

  /** The value itself while there are few, else 'other'. */
  of(value: string): string {
    if (this.#known.has(value)) return value
    if (this.#known.size >= MOST_VALUES) return OTHER_VALUES
    this.#known.add(value)
    return value
  }
}
