/**
 * When requests are refused, a line for each policy. Under the pointer, or by the arrow keys, it tells the values of
 * one moment.
 */

import { count, shortWindow, windowWords } from '../../../dashboard/look/format.js'
import { areaPath, indexAt, largest, linePath, niceTop, whereAbove } from '../../../dashboard/look/geometry.js'
import { Plot } from '../../../dashboard/page/chart.js'
import { letterOf, type PageReport } from '../report.js'
import type { Chart } from './series.js'
import { lineOf, Swatch, utc } from './words.js'

const WIDTH = 600
const HEIGHT = 100
const DAY = 86_400

interface Props {
  readonly data: PageReport
  readonly chart: Chart
}

export function RefusedChart({ data, chart }: Props) {
  const { trials } = data
  const { at, denied, spanSeconds, requests } = chart
  const most = largest(...denied)
  const frame = { width: WIDTH, height: HEIGHT, top: niceTop(most) }
  const last = at.length - 1
  const named = (i: number) => (trials.length > 1 ? ` by ${letterOf(i, trials.length)}` : '')
  const read = (i: number) => {
    const moment = at[i]
    if (moment === null) return 'nothing for a long time'
    const refused = denied.map((values, policy) => `${count(values[i] ?? 0)} refused${named(policy)}`)
    return `${utc(moment, spanSeconds)}: ${refused.join(', ')}, of ${count(requests[i] ?? 0)}`
  }
  const days = ((at[last] ?? 0) - (at[0] ?? 0)) / DAY > 1.5
  const axes = {
    length: at.length,
    frame,
    value: count,
    hasMiddle: frame.top > 1,
    time: (share: number) => {
      const second = at[indexAt(share, at.length)] ?? at[Math.max(0, indexAt(share, at.length) - 1)]
      return second === null ? '' : utc(second, days ? spanSeconds : 60, days)
    },
  }
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
          <Plot
            axes={axes}
            label={`Refused requests per ${windowWords(spanSeconds * 1000)}`}
            sentence={sentenceOf(data, chart)}
            pageStep={10}
            valueText={read}
            reading={i => <Reading data={data} chart={chart} index={i} />}
          >
            {denied.length === 1 && <path class="refused-area" d={areaPath(whereAbove(denied[0], denied[0]), frame)} />}
            {denied.map((values, i) => (
              <path
                key={trials[i].text}
                class={`refused-line ${lineOf(i).shade}`}
                stroke-dasharray={lineOf(i).dashes}
                d={linePath(whereAbove(values, values), frame)}
              />
            ))}
          </Plot>
        )}
      </div>
    </section>
  )
}

function Reading({ data, chart, index }: Props & { index: number }) {
  const { trials } = data
  const { at, denied, spanSeconds, requests } = chart
  const moment = at[index]
  if (moment === null) return <span>nothing for a long time</span>
  return (
    <>
      <span>
        {utc(moment, spanSeconds)}, {shortWindow(spanSeconds * 1000)}
      </span>
      {denied.flatMap((values, i) => [
        <span key={`${trials[i].text} value`} class="refused">
          {count(values[index] ?? 0)}
        </span>,
        <span key={trials[i].text}>
          refused{trials.length > 1 && ` by ${letterOf(i, trials.length)} `}
          {trials.length > 1 && <Swatch index={i} />}
        </span>,
      ])}
      <span>{count(requests[index] ?? 0)}</span>
      <span>requests</span>
    </>
  )
}

function sentenceOf({ trials }: PageReport, chart: Chart): string {
  const { at, denied, spanSeconds } = chart
  const each = denied.map((values, i) => {
    const most = largest(values)
    const letter = letterOf(i, trials.length)
    const who = letter === '' ? 'The policy' : `Policy ${letter}`
    if (most === 0) return `${who} refuses nothing.`
    const when = at[values.indexOf(most)]
    return (
      `${who} refuses at most ${count(most)} requests per ${windowWords(spanSeconds * 1000)}, from ` +
      `${when === null ? '' : utc(when, spanSeconds)} on.`
    )
  })
  return each.join(' ')
}
