import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { clock, rate, span } from '../look/format.js'
import {
  areaPath,
  type ChartArea,
  indexAt,
  largest,
  linePath,
  niceTop,
  place,
  stacked,
  type Values,
  whereAbove,
} from '../look/geometry.js'
import type { Mark, Series } from '../view.js'

/** The axes: 0, half of `top` and `top`, and four moments. */
interface Axes {
  /** How many moments there are. */
  readonly length: number
  readonly frame: ChartArea
  value(value: number): string
  /** Whether half of `top` is written beside it. */
  readonly hasMiddle: boolean
  /** The moment at a share of the width. */
  time(share: number): string
  /** Moments with their seconds: on a narrow screen there is room for the first and the last one. */
  readonly isExact?: boolean
}

/** A chart with axes. Under the pointer, or by the arrow keys, it tells the values of one moment. */
export function Plot({
  axes,
  label,
  sentence,
  pageStep,
  valueText,
  reading,
  children,
}: {
  axes: Axes
  label: string
  /** What the chart shows, for who does not see it. */
  sentence: string
  /** How many moments Page Up and Page Down go. */
  pageStep: number
  /** The values of a moment in words. */
  valueText: (index: number) => string
  /** The values of a moment, beside the cursor. */
  reading: (index: number) => ComponentChildren
  children: ComponentChildren
}) {
  const [index, setIndex] = useState<number | undefined>(undefined)
  const { length, frame, value, time } = axes
  const { width, height, top } = frame
  const last = length - 1
  const press = (event: KeyboardEvent) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -pageStep, PageDown: pageStep, Home: -length, End: length }
    const step = steps[event.key as keyof typeof steps]
    if (step === undefined) return
    event.preventDefault()
    setIndex(Math.max(0, Math.min(last, (index ?? last) + step)))
  }
  const x = index === undefined ? 0 : place(index, length)
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
        aria-valuetext={last >= 0 ? valueText(index ?? last) : 'no values yet'}
        onPointerMove={event => setIndex(indexUnder(event, length))}
        onPointerLeave={() => setIndex(undefined)}
        onKeyDown={press}
        onBlur={() => setIndex(undefined)}
      >
        <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
          {[0.25, 0.5, 0.75].map(share => (
            <line key={share} class="grid" x1="0" y1={height * share} x2={width} y2={height * share} />
          ))}
          <line class="edge" x1="0" y1={height} x2={width} y2={height} />
          {children}
          {index !== undefined && <Cursor share={x} frame={frame} />}
        </svg>
        <span class="axis top">{value(top)}</span>
        {axes.hasMiddle && <span class="axis middle">{value(top / 2)}</span>}
        <span class="axis bottom">0</span>
        {index !== undefined && index <= last && <Reading share={x}>{reading(index)}</Reading>}
      </div>
      <div class={axes.isExact ? 'times exact' : 'times'} aria-hidden="true">
        {last > 0 && [...new Set([0, 1 / 3, 2 / 3, 1].map(time))].map(text => <span key={text}>{text}</span>)}
      </div>
    </figure>
  )
}

/** The index of the moment under the pointer. */
function indexUnder(event: PointerEvent, length: number): number {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect()
  return indexAt((event.clientX - box.left) / box.width, length)
}

function Cursor({ share, frame: { width, height } }: { share: number; frame: Pick<ChartArea, 'width' | 'height'> }) {
  return <line class="cursor" x1={share * width} y1="0" x2={share * width} y2={height} />
}

/** The values of a moment, on that side of the cursor where there is room. */
function Reading({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <div class="reading" style={share > 0.5 ? { right: `${(1 - share) * 100 + 1}%` } : { left: `${share * 100 + 1}%` }}>
      {children}
    </div>
  )
}

const WIDTH = 600
const HEIGHT = 100
/** The axis of a shorter chart tells seconds. */
const SHORT_MS = 240_000

/** Allowed and refused requests per second at each moment: a small chart in a row of a table, a large one under it. */
interface Traffic {
  /** Ms since the epoch. */
  readonly at: readonly number[]
  /** From one moment to the next; absent: the values are no rates, and are not told under the pointer. */
  readonly stepMs?: number
  readonly allowed: Values
  readonly refused: Values
  /** What happened meanwhile. */
  readonly marks?: readonly Mark[]
}

/** Ticks from top to bottom where something happened. */
function Marks({ traffic: { at, stepMs = 0, marks = [] } }: { traffic: Traffic }) {
  const [first, last] = [at[0], at[at.length - 1] + stepMs]
  const within = marks.filter(mark => mark.at >= first && mark.at <= last)
  return (
    <>
      {within.map(mark => {
        const x = Math.min(1, (mark.at - first) / Math.max(1, at[at.length - 1] - first)) * WIDTH
        return <line key={`${mark.at} ${mark.title}`} class={`mark ${mark.kind}`} x1={x} y1="0" x2={x} y2={HEIGHT} />
      })}
    </>
  )
}

/** What happened in the step of a moment, or in the one before. */
function marksAt({ at, stepMs = 0, marks = [] }: Traffic, index: number): readonly Mark[] {
  return marks.filter(mark => mark.at >= at[index] - stepMs / 2 && mark.at < at[index] + stepMs / 2).slice(0, 3)
}

/** The upper edge that the small and the large chart of one row share. */
function topOf({ allowed, refused }: Traffic): number {
  return niceTop(largest(stacked(allowed, refused), allowed))
}

function Paths({ allowed, refused, top }: Pick<Traffic, 'allowed' | 'refused'> & { top: number }) {
  const frame: ChartArea = { width: WIDTH, height: HEIGHT, top }
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
        <Marks traffic={traffic} />
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
      {marksAt(traffic, index).map(({ title }) => (
        <span key={title} class="what">
          {title}
        </span>
      ))}
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
          ? [
              `${momentWords(at[i], stepMs)}: ${rate(allowed[i] ?? 0)} allowed and ${rate(refused[i] ?? 0)} ` +
                'refused per second',
              ...marksAt(traffic, i).map(({ title }) => title),
            ].join('. ')
          : `${momentWords(at[i], stepMs)}: not known`
      }
      reading={i => <Reads traffic={traffic} index={i} />}
    >
      <Paths allowed={allowed} refused={refused} top={top} />
      <Marks traffic={traffic} />
    </Plot>
  )
}

/** A rise is what is refused after so long without a refusal, and at least one step. */
const CALM_MS = 60_000

/** A series with the moments of its values. */
export function trafficOf({ from, stepMs, allowed, refused }: Series, marks: readonly Mark[]): Required<Traffic> {
  return { at: allowed.map((_, i) => from + i * stepMs), stepMs, allowed, refused, marks }
}

/** A chart in one sentence: '13.1 refused per second, up from 0 at 14:02'. */
export function sentenceOf({ at, stepMs, allowed, refused }: Required<Traffic>): string {
  const last = at.length - 1
  if (last < 0 || allowed[last] == null) return 'No values yet.'
  const now = `${rate(allowed[last] ?? 0)} allowed and ${rate(refused[last] ?? 0)} refused per second`
  if ((refused[last] ?? 0) === 0) {
    const most = refused.reduce((most: number, value) => Math.max(most, value ?? 0), 0)
    return most === 0
      ? `${now}, none refused in ${span(at.length * stepMs)}.`
      : `${now}, down from ${rate(most)} refused.`
  }
  let start = last
  for (let i = last, calm = 0; i >= 0 && calm < Math.ceil(CALM_MS / stepMs); i--) {
    calm = (refused[i] ?? 0) > 0 ? 0 : calm + 1
    if (calm === 0) start = i
  }
  return start === 0 ? `${now}, for ${span(at.length * stepMs)} or more.` : `${now}, up from 0 at ${clock(at[start])}.`
}
