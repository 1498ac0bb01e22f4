/** The timeline in numbers, as the text report has it. */
import { count, windowWords } from '../../../dashboard/look/format.js'
import { ColumnHeads } from '../../../dashboard/page/column-heads.js'
import type { PageData } from '../page-data.js'
import { letterOf, utc } from './words.js'

export function Rows({ data }: { data: PageData }) {
  const { policies } = data
  const { spanSeconds, rows } = data.rows
  return (
    <details class="panel">
      <summary>Numbers, a row for every {windowWords(spanSeconds * 1000)}</summary>
      <table class="rows">
        <ColumnHeads
          of={[
            ['From (UTC)'],
            ['Requests', 'number'],
            ...policies.map((_, i) => [`Refused ${letterOf(i, policies.length)}`, 'number'] as const),
          ]}
        />
        <tbody>
          {rows.map(({ at, requests, denied }) => (
            <tr key={at}>
              <th scope="row" class="row-name">
                {utc(at, spanSeconds)}
              </th>
              <td class="number">{count(requests)}</td>
              {policies.map((policy, i) => (
                <td key={policy.text} class={`number ${denied[i] > 0 ? 'refused' : 'muted'}`}>
                  {count(denied[i])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  )
}
