/** The policies side by side: what each allows and refuses, and how long the refused would wait. */
import { count } from '../../../dashboard/look/format.js'
import { SmallChart, type Traffic } from '../../../dashboard/page/chart.js'
import { ColumnHeads } from '../../../dashboard/page/column-heads.js'
import type { PageData } from '../page-data.js'
import { Swatch } from './swatch.js'
import { letterOf, policyWords, subjectWord, waitWords } from './words.js'

export function Policies({ data }: { data: PageData }) {
  const { policies, by, keys, chart } = data
  return (
    <section class="panel" aria-labelledby="policies">
      <header>
        <h2 id="policies">{policies.length === 1 ? 'Policy' : 'Policies'}</h2>
        <span class="muted">{policies.length > 1 ? 'each with the whole log' : ''}</span>
      </header>
      <table class="policies">
        <ColumnHeads
          of={[
            ['Limit'],
            ['Allowed and refused', 'wide'],
            ['Allowed', 'number medium'],
            ['Refused', 'number'],
            ['Share', 'number'],
            [
              `${subjectWord(by, 2)[0].toUpperCase() + subjectWord(by, 2).slice(1)} refused, of ${count(keys)}`,
              'number medium',
            ],
            ['Median wait', 'number wide'],
            ['Longest wait', 'number medium'],
          ]}
        />
        <tbody>
          {policies.map((policy, i) => (
            <tr key={policy.text} class={policy.denied > 0 ? '' : 'quiet'}>
              <th scope="row" class="row-name">
                <div class="policy">
                  {policies.length > 1 && <Swatch index={i} />}
                  {policies.length > 1 && <span class="letter">{letterOf(i, policies.length)}</span>}
                  <span class="policy-words">
                    <span class="name">{policyWords(policy, by)}</span>
                    <code class="muted">{policy.text}</code>
                  </span>
                </div>
              </th>
              <td class="wide">
                <SmallChart
                  traffic={trafficOf(chart, i)}
                  sentence={`${count(policy.allowed)} allowed and ${count(policy.denied)} refused`}
                />
              </td>
              <td class="number medium">{count(policy.allowed)}</td>
              <td class={`number ${policy.denied > 0 ? 'refused' : ''}`}>{count(policy.denied)}</td>
              <td class={`number ${policy.denied > 0 ? 'refused' : ''}`}>{policy.share}</td>
              <td class="number medium">{count(policy.deniedKeys)}</td>
              <td class="number wide">{policy.waits === null ? '–' : waitWords(policy.waits.median)}</td>
              <td class="number medium">{policy.waits === null ? '–' : waitWords(policy.waits.longest)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

function trafficOf({ at, requests, denied }: PageData['chart'], policy: number): Traffic {
  return {
    at: at.map(second => (second ?? 0) * 1000),
    allowed: requests.map((value, i) => (value === null ? null : value - (denied[policy][i] ?? 0))),
    refused: denied[policy],
  }
}
