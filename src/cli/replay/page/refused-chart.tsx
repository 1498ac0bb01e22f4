/** When requests are refused, a line for each policy. Under the pointer, or by the arrow keys, it tells the values of one moment. */
import { useState } from 'preact/hooks'
import { areaPath, indexAt, largest, linePath, niceTop, place, whereAbove } from '../../../dashboard/look/geometry.js'
import { count, shortWindow, windowWords } from '../../../dashboard/look/words.js'
import type { PageData } from '../page-data.js'
import { lineOf, Swatch } from './swatch.js'
import { letterOf, utc } from './words.js'

const WIDTH = 600
const HEIGHT = 100
const DAY = 86_400

export function RefusedChart({ data }: { data: PageData }) {
  const { chart, policies } = data
  const { at, denied, spanSeconds, requests } = chart
  const [index, setIndex] = useState<number | undefined>(undefined)
  const most = largest(...denied)
  const frame = { width: WIDTH, height: HEIGHT, top: niceTop(most) }
  const last = at.length - 1
  const named = (i: number) => (policies.length > 1 ? ` by ${letterOf(i, policies.length)}` : '')
  const read = (i: number) => {
    const moment = at[i]
    if (moment === null) return 'nothing for a long time'
    const refused = denied.map((values, policy) => `${count(values[i] ?? 0)} refused${named(policy)}`)
    return `${utc(moment, spanSeconds)}: ${refused.join(', ')}, of ${count(requests[i] ?? 0)}`
  }
  const point = (event: PointerEvent) => {
    const { left, width } = (event.currentTarget as HTMLElement).getBoundingClientRect()
    setIndex(indexAt((event.clientX - left) / width, at.length))
  }
  const press = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -at.length, End: at.length }[
      event.key
    ]
    if (step === undefined) return
    event.preventDefault()
    setIndex(Math.max(0, Math.min(last, (index ?? last) + step)))
  }
  const x = index === undefined ? 0 : place(index, at.length)
  const moment = index === undefined ? null : at[index]
  const days = ((at[last] ?? 0) - (at[0] ?? 0)) / DAY > 1.5
  return (
    <section class="panel" aria-labelledby="over-time">
      <header>
        <h2 id="over-time">Refused over time</h2>
        <span class="muted">requests per {windowWords(spanSeconds * 1000)}, UTC</span>
      </header>
      <div class="body">
        {most === 0 ? (
          <p class="muted">No request would have been refused.</p>
        ) : (
          <figure class="chart large">
            <figcaption class="hidden">{sentenceOf(data)}</figcaption>
            <div
              class="plot"
              role="slider"
              tabIndex={0}
              aria-label={`Refused requests per ${windowWords(spanSeconds * 1000)}`}
              aria-valuemin={0}
              aria-valuemax={last}
              aria-valuenow={index ?? last}
              aria-valuetext={read(index ?? last)}
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
                {denied.length === 1 && (
                  <path class="refused-area" d={areaPath(whereAbove(denied[0], denied[0]), frame)} />
                )}
                {denied.map((values, i) => (
                  <path
                    key={policies[i].text}
                    class={`refused-line ${lineOf(i).shade}`}
                    stroke-dasharray={lineOf(i).dashes}
                    d={linePath(whereAbove(values, values), frame)}
                  />
                ))}
                {index !== undefined && <line class="cursor" x1={x * WIDTH} y1="0" x2={x * WIDTH} y2={HEIGHT} />}
              </svg>
              <span class="axis top">{count(frame.top)}</span>
              {frame.top > 1 && <span class="axis middle">{count(frame.top / 2)}</span>}
              <span class="axis bottom">0</span>
              {index !== undefined && (
                <div class="reading" style={x > 0.5 ? { right: `${(1 - x) * 100 + 1}%` } : { left: `${x * 100 + 1}%` }}>
                  <span>
                    {moment === null
                      ? 'nothing for a long time'
                      : `${utc(moment, spanSeconds)}, ${shortWindow(spanSeconds * 1000)}`}
                  </span>
                  {moment !== null &&
                    denied.flatMap((values, i) => [
                      <span key={`${policies[i].text} value`} class="refused">
                        {count(values[index] ?? 0)}
                      </span>,
                      <span key={policies[i].text}>
                        refused{policies.length > 1 && ` by ${letterOf(i, policies.length)} `}
                        {policies.length > 1 && <Swatch index={i} />}
                      </span>,
                    ])}
                  {moment !== null && <span>{count(requests[index] ?? 0)}</span>}
                  {moment !== null && <span>requests</span>}
                </div>
              )}
            </div>
            <div class="times" aria-hidden="true">
              {last > 0 &&
                [0, 1 / 3, 2 / 3, 1].map(share => {
                  const second = at[indexAt(share, at.length)] ?? at[Math.max(0, indexAt(share, at.length) - 1)]
                  return <span key={share}>{second === null ? '' : utc(second, days ? spanSeconds : 60, days)}</span>
                })}
            </div>
          </figure>
        )}
      </div>
    </section>
  )
}

function sentenceOf({ chart, policies }: PageData): string {
  const { at, denied, spanSeconds } = chart
  const each = denied.map((values, i) => {
    const most = largest(values)
    const letter = letterOf(i, policies.length)
    const who = letter === '' ? 'The policy' : `Policy ${letter}`
    if (most === 0) return `${who} refuses nothing.`
    const when = at[values.indexOf(most)]
    return `${who} refuses at most ${count(most)} requests per ${windowWords(spanSeconds * 1000)}, from ${when === null ? '' : utc(when, spanSeconds)} on.`
  })
  return each.join(' ')
}
