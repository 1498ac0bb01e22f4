import type { Clock } from '../../core/clock.js'
import { count } from '../table.js'

const EVERY_MS = 200
const BAR = 24
/** A narrower terminal has no room for a bar. */
const NARROWEST = 80
const CLEAR_LINE = '\r\x1b[K'

/** Shows how much of a log has been read, as a bar and numbers on one line of a terminal, a few times a second. Writes nothing if the output is no terminal. */
export class Progress {
  readonly #startedAt: number
  #shownAt: number
  #visible = false

  /** `totalBytes`: undefined if unknown, as for a pipe. */
  constructor(
    readonly output: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown },
    readonly totalBytes: number | undefined,
    readonly clock: Clock,
    /** True if the terminal can show more than ASCII. */
    readonly unicode = false,
  ) {
    this.#startedAt = clock.now()
    this.#shownAt = this.#startedAt
  }

  update(bytes: number, lines: number): void {
    if (!this.output.isTTY) return
    const nowMs = this.clock.now()
    if (nowMs - this.#shownAt < EVERY_MS) return
    this.#shownAt = nowMs
    this.#visible = true
    const perSecond = Math.round(lines / ((nowMs - this.#startedAt) / 1000))
    const parts = [sizeOf(bytes), `${count(lines)} lines`, `${count(perSecond)} lines/s`]
    if (this.totalBytes) {
      const part = Math.min(bytes / this.totalBytes, 1)
      parts[0] = `${Math.floor(part * 100)} % of ${sizeOf(this.totalBytes)}`
      if (part > 0) parts.push(`${Math.ceil(((nowMs - this.#startedAt) / 1000) * (1 / part - 1))} s left`)
    }
    // A line that is too long would wrap, and could not be cleared.
    this.output.write(`${CLEAR_LINE}${(this.#bar(bytes) + parts.join('  ')).slice(0, this.#columns - 1)}`)
  }

  get #columns(): number {
    return this.output.columns ?? NARROWEST
  }

  #bar(bytes: number): string {
    if (!this.totalBytes || this.#columns < NARROWEST) return ''
    const done = Math.round(Math.min(bytes / this.totalBytes, 1) * BAR)
    const [full, empty] = this.unicode ? ['█', '░'] : ['#', '-']
    return `${full.repeat(done)}${empty.repeat(BAR - done)}  `
  }

  /** Clears the line. */
  clear(): void {
    if (this.#visible) this.output.write(CLEAR_LINE)
    this.#visible = false
  }
}

function sizeOf(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${count(Math.ceil(bytes / 1e3))} kB`
}
