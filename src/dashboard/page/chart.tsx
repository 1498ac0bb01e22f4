/** The chart of allowed and refused requests per second, small in a row and large under it. Part of the shared look, see ../look/tokens.css. */

import { clock, rate } from '../look/format.js'
import {
  areaPath,
  type Frame,
  indexAt,
  largest,
  linePath,
  niceTop,
  stacked,
  type Values,
  whereAbove,
} from '../look/geometry.js'
import { Plot } from './plot.js'

const WIDTH = 600
const HEIGHT = 100

/** The data of a chart: allowed and refused requests per second at each moment. */
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

/** Under the pointer, or by the arrow keys, it tells the values of one moment. */
export function LargeChart({ traffic, label, sentence }: { traffic: Traffic; label: string; sentence: string }) {
  const { at, allowed, refused } = traffic
  const top = topOf(traffic)
  // Before a limit was first met, and where no report came, nothing is known: that is not 0.
  const isKnown = (i: number) => allowed[i] != null || refused[i] != null
  const axes = {
    length: at.length,
    frame: { width: WIDTH, height: HEIGHT, top },
    value: rate,
    hasMiddle: true,
    time: (share: number) => clock(at[indexAt(share, at.length)]),
  }
  return (
    <Plot
      axes={axes}
      label={label}
      sentence={sentence}
      pageStep={6}
      valueText={i =>
        isKnown(i)
          ? `${clock(at[i], true)}: ${rate(allowed[i] ?? 0)} allowed and ${rate(refused[i] ?? 0)} refused per second`
          : `${clock(at[i], true)}: not known`
      }
      reading={i =>
        isKnown(i) ? (
          <>
            <span>{clock(at[i], true)}</span>
            <span>{rate(allowed[i] ?? 0)}</span>
            <span>allowed</span>
            <span class="refused">{rate(refused[i] ?? 0)}</span>
            <span>refused</span>
          </>
        ) : (
          <>
            <span>{clock(at[i], true)}</span>
            <span>not known</span>
          </>
        )
      }
    >
      <Paths allowed={allowed} refused={refused} top={top} />
    </Plot>
  )
}
