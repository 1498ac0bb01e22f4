/** The chart of allowed and refused requests per second, small in a row and large under it. Part of the shared look, see ../look/tokens.css. */

import { useState } from 'preact/hooks'
import { clock, rate } from '../look/format.js'
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
import { Cursor, indexUnder, Plot, Reading } from './plot.js'

const WIDTH = 600
const HEIGHT = 100
/** The axis of a shorter chart tells seconds. */
const SHORT_MS = 240_000

/** The data of a chart: allowed and refused requests per second at each moment. */
export interface Traffic {
  /** Ms since the epoch. */
  readonly at: readonly number[]
  /** From one moment to the next; absent: the values are no rates, and are not told under the pointer. */
  readonly stepMs?: number
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

/** A chart of a table's row; its numbers stand beside it. Under the pointer it tells the values of one moment. */
export function SmallChart({ traffic, sentence }: { traffic: Traffic; sentence: string }) {
  const [index, setIndex] = useState<number | undefined>(undefined)
  const length = traffic.at.length
  return (
    <div
      class="chart small"
      role="img"
      aria-label={sentence}
      onPointerMove={event => traffic.stepMs !== undefined && setIndex(indexUnder(event, length))}
      onPointerLeave={() => setIndex(undefined)}
    >
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        <line class="grid" x1="0" y1={HEIGHT} x2={WIDTH} y2={HEIGHT} />
        <Paths allowed={traffic.allowed} refused={traffic.refused} top={topOf(traffic)} />
        {index !== undefined && <Cursor share={place(index, length)} frame={{ width: WIDTH, height: HEIGHT }} />}
      </svg>
      {index !== undefined && index < length && (
        <Reading share={place(index, length)}>
          <Reads traffic={traffic} index={index} />
        </Reading>
      )}
    </div>
  )
}

function Reads({ traffic, index }: { traffic: Traffic; index: number }) {
  const { at, stepMs = 0, allowed, refused } = traffic
  const moment = <span>{momentWords(at[index], stepMs)}</span>
  if (!isKnown(traffic, index)) {
    return (
      <>
        {moment}
        <span>not known</span>
      </>
    )
  }
  return (
    <>
      {moment}
      <span>{rate(allowed[index] ?? 0)}</span>
      <span>allowed</span>
      <span class="refused">{rate(refused[index] ?? 0)}</span>
      <span>refused</span>
    </>
  )
}

/** Before a limit was first met, and where no report came, nothing is known: that is not 0. */
function isKnown({ allowed, refused }: Traffic, index: number): boolean {
  return allowed[index] != null || refused[index] != null
}

/** '14:02:10'; of a longer step its beginning and its end. */
function momentWords(at: number, stepMs: number): string {
  return stepMs < 60_000 ? clock(at, true) : `${clock(at)} to ${clock(at + stepMs)}`
}

/** Under the pointer, or by the arrow keys, it tells the values of one moment. */
export function LargeChart({ traffic, label, sentence }: { traffic: Traffic; label: string; sentence: string }) {
  const { at, stepMs = 0, allowed, refused } = traffic
  const isShort = at.length * stepMs < SHORT_MS
  const top = topOf(traffic)
  const axes = {
    length: at.length,
    frame: { width: WIDTH, height: HEIGHT, top },
    value: rate,
    hasMiddle: true,
    isExact: isShort,
    time: (share: number) => clock(at[indexAt(share, at.length)], isShort),
  }
  return (
    <Plot
      axes={axes}
      label={label}
      sentence={sentence}
      pageStep={6}
      valueText={i =>
        isKnown(traffic, i)
          ? `${momentWords(at[i], stepMs)}: ${rate(allowed[i] ?? 0)} allowed and ${rate(refused[i] ?? 0)} refused per second`
          : `${momentWords(at[i], stepMs)}: not known`
      }
      reading={i => <Reads traffic={traffic} index={i} />}
    >
      <Paths allowed={allowed} refused={refused} top={top} />
    </Plot>
  )
}
