import { parseLimit } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../src/testing.js'
import type { Arrival } from './burst.js'
import { requestMarks, Scale, timeAxis, WIDTH } from './marks.js'
import { page } from './page.js'
import { element, line, shown, text } from './svg.js'

const LIMIT = parseLimit({ quota: 5, window: '10s' })
const BURST = Array.from({ length: 8 }, (_, i) => 1_000 + 300 * i)
const LENGTH_MS = 14_000
const SCALE = new Scale(40, 820, LENGTH_MS)
const LINE = 124

/** A burst that is refused exactly at the limit, and the moment at which a refused request may come back. */
export function promise(): string {
  const { arrivals, promisedAt } = simulated()
  const refused = arrivals.filter(({ allowed, at }) => !allowed && at < promisedAt - 1)
  const passed = arrivals.filter(({ allowed, at }) => allowed && at < promisedAt)
  const last = refused.at(-1) as Arrival
  const waitMs = promisedAt - last.at
  const [from, to] = [SCALE.x(last.at), SCALE.x(promisedAt)]
  const below = LINE + 52
  const words = `refused: "come back in ${waitMs} ms"`
  return page(
    WIDTH,
    238,
    `A burst of ${BURST.length} requests under a limit of ${LIMIT.quota} per 10 s`,
    `${passed.length} requests pass and ${refused.length} are refused. The last is told to come back in ` +
      `${waitMs} ms. A request one millisecond before that moment is refused; a request at that moment passes.`,
    text(24, 30, `One client, at most ${LIMIT.quota} requests in any 10 s`, { class: 'name ink' }),
    text(SCALE.right, 30, 'allowed above the line, refused below', { class: 'end' }),
    ...timeAxis(SCALE, 60, 206, 2_000),
    text(SCALE.x(passed[0].at), LINE - 26, `${passed.length} pass`, { class: 'allowed-text' }),
    element('path', {
      class: 'rule dashed',
      d: `M${shown(from)} ${LINE + 20}V${below}H${shown(to)}V${LINE + 20}`,
    }),
    text((from + to) / 2, below - 7, words, { class: 'middle denied-text' }),
    line(to, 68, to, LINE - 20, { class: 'rule dashed' }),
    ...requestMarks(SCALE, arrivals, LINE),
    text(to + 8, LINE - 26, 'at that moment: passes', { class: 'allowed-text' }),
    text(to + 8, LINE + 24, '1 ms earlier: refused', { class: 'denied-text' }),
    text(from - 4, LINE + 36, `${refused.length} refused`, { class: 'end denied-text' }),
  )
}

/** The store's own answers to the burst, to a request one millisecond too early, and to one at the promised moment. */
function simulated(): { arrivals: Arrival[]; promisedAt: number } {
  const clock = new ManualClock()
  const store = new MemoryStore({ clock })
  const arrivals: Arrival[] = []
  const ask = (at: number) => {
    clock.set(at)
    const [{ allowed, retryAfterMs }] = store.consume([{ key: 'a client', limit: LIMIT }], 1)
    arrivals.push({ at, allowed, leavesAt: at })
    return at + retryAfterMs
  }
  const promisedAt = BURST.map(ask).at(-1) as number
  for (const at of [promisedAt - 1, promisedAt]) ask(at)
  store.close()
  return { arrivals, promisedAt }
}
