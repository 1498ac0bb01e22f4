/** A chart with axes. Under the pointer, or by the arrow keys, it tells the values of one moment. Part of the shared look, see ../look/tokens.css. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Frame, indexAt, place } from '../look/geometry.js'

/** The axes: 0, half of `top` and `top`, and four moments. */
export interface Axes {
  /** How many moments there are. */
  readonly length: number
  readonly frame: Frame
  value(value: number): string
  /** Whether half of `top` is written beside it. */
  readonly hasMiddle: boolean
  /** The moment at a share of the width. */
  time(share: number): string
  /** Moments with their seconds: on a narrow screen there is room for the first and the last one. */
  readonly isExact?: boolean
}

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
        {last > 0 && [0, 1 / 3, 2 / 3, 1].map(share => <span key={share}>{time(share)}</span>)}
      </div>
    </figure>
  )
}

/** The index of the moment under the pointer. */
export function indexUnder(event: PointerEvent, length: number): number {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect()
  return indexAt((event.clientX - box.left) / box.width, length)
}

export function Cursor({ share, frame: { width, height } }: { share: number; frame: Pick<Frame, 'width' | 'height'> }) {
  return <line class="cursor" x1={share * width} y1="0" x2={share * width} y2={height} />
}

/** The values of a moment, on that side of the cursor where there is room. */
export function Reading({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <div class="reading" style={share > 0.5 ? { right: `${(1 - share) * 100 + 1}%` } : { left: `${share * 100 + 1}%` }}>
      {children}
    </div>
  )
}
