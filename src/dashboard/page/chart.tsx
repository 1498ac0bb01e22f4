/** The chart of what was allowed and refused per second, small in a row and large under it. Part of the shared look, see ../look/tokens.css. */
import { useState } from 'preact/hooks'
import {
  areaPath,
  type Frame,
  indexAt,
  largest,
  linePath,
  niceTop,
  place,
  stacked,
  type Values,
  whereAbove,
} from '../look/geometry.js'
import { clock, rate } from '../look/words.js'

const WIDTH = 600
const HEIGHT = 100

/** What a chart shows: at each moment how many were allowed and refused per second. */
export interface Traffic {
  /** Ms since the epoch. */
  readonly at: readonly number[]
  readonly allowed: Values
  readonly refused: Values
}

/** The upper edge that the small and the large chart of one row share. */
function topOf({ allowed, refused }: Traffic): number {
  return niceTop(largest(stacked(allowed, refused), allowed))
}

function Paths({ allowed, refused, top }: Pick<Traffic, 'allowed' | 'refused'> & { top: number }) {
  const frame: Frame = { width: WIDTH, height: HEIGHT, top }
  const sum = stacked(allowed, refused)
  const refusing = whereAbove(refused, sum)
  return (
    <>
      <path class="allowed-area" d={areaPath(allowed, frame)} />
      <path class="refused-area" d={areaPath(refusing, frame, allowed)} />
      <path class="allowed-line" d={linePath(allowed, frame)} />
      <path class="refused-line" d={linePath(refusing, frame)} />
    </>
  )
}

/** A chart of a table's row; its numbers stand beside it. */
export function SmallChart({ traffic, sentence }: { traffic: Traffic; sentence: string }) {
  return (
    <div class="chart small" role="img" aria-label={sentence}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        <line class="grid" x1="0" y1={HEIGHT} x2={WIDTH} y2={HEIGHT} />
        <Paths allowed={traffic.allowed} refused={traffic.refused} top={topOf(traffic)} />
      </svg>
    </div>
  )
}

/** A chart with axes. Under the pointer, or by the arrow keys, it tells the values of one moment. */
export function LargeChart({ traffic, label, sentence }: { traffic: Traffic; label: string; sentence: string }) {
  const [index, setIndex] = useState<number | undefined>(undefined)
  const { at, allowed, refused } = traffic
  const top = topOf(traffic)
  const last = at.length - 1
  const read = (i: number) =>
    `${clock(at[i], true)}: ${rate(allowed[i] ?? 0)} allowed and ${rate(refused[i] ?? 0)} refused per second`
  const point = (event: PointerEvent) => {
    const { left, width } = (event.currentTarget as HTMLElement).getBoundingClientRect()
    setIndex(indexAt((event.clientX - left) / width, at.length))
  }
  const press = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -6, PageDown: 6, Home: -at.length, End: at.length }[event.key]
    if (step === undefined) return
    event.preventDefault()
    setIndex(Math.max(0, Math.min(last, (index ?? last) + step)))
  }
  const x = index === undefined ? 0 : place(index, at.length)
  return (
    <figure class="chart large">
      <figcaption class="hidden">{sentence}</figcaption>
      <div
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, last)}
        aria-valuenow={index ?? last}
        aria-valuetext={last >= 0 ? read(index ?? last) : 'no values yet'}
        onPointerMove={point}
        onPointerLeave={() => setIndex(undefined)}
        onKeyDown={press}
        onBlur={() => setIndex(undefined)}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {[0.25, 0.5, 0.75].map(share => (
            <line key={share} class="grid" x1="0" y1={HEIGHT * share} x2={WIDTH} y2={HEIGHT * share} />
          ))}
          <line class="edge" x1="0" y1={HEIGHT} x2={WIDTH} y2={HEIGHT} />
          <Paths allowed={allowed} refused={refused} top={top} />
          {index !== undefined && <line class="cursor" x1={x * WIDTH} y1="0" x2={x * WIDTH} y2={HEIGHT} />}
        </svg>
        <span class="axis top">{rate(top)}</span>
        <span class="axis middle">{rate(top / 2)}</span>
        <span class="axis bottom">0</span>
        {index !== undefined && (
          <div class="reading" style={x > 0.5 ? { right: `${(1 - x) * 100 + 1}%` } : { left: `${x * 100 + 1}%` }}>
            <span>{clock(at[index], true)}</span>
            <span>{rate(allowed[index] ?? 0)}</span>
            <span>allowed</span>
            <span class="refused">{rate(refused[index] ?? 0)}</span>
            <span>refused</span>
          </div>
        )}
      </div>
      <div class="times" aria-hidden="true">
        {last > 0 && [0, 1 / 3, 2 / 3, 1].map(share => <span key={share}>{clock(at[indexAt(share, at.length)])}</span>)}
      </div>
    </figure>
  )
}
