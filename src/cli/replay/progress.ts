import type { Clock } from '../../core/clock.js'
import { count } from '../table.js'

const EVERY_MS = 200
const CLEAR_LINE = '\r\x1b[K'

/** How far the reading has come, on one line of a terminal, renewed a few times a second; writes nothing to anything else. */
export class Progress {
  readonly #startedAt: number
  #shownAt: number
  #visible = false

  /** `totalBytes`: undefined if nobody knows, as of a pipe. */
  constructor(
    readonly output: { readonly isTTY?: boolean; write(text: string): unknown },
    readonly totalBytes: number | undefined,
    readonly clock: Clock,
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
    this.output.write(`${CLEAR_LINE}${parts.join('  ')}`)
  }

  /** Leaves the line as it was found. */
  clear(): void {
    if (this.#visible) this.output.write(CLEAR_LINE)
    this.#visible = false
  }
}

function sizeOf(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${count(Math.ceil(bytes / 1e3))} kB`
}
