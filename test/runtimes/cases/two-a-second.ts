import assert from 'node:assert/strict'
import { sleep } from '../case.js'

/** Asks a service on this port that allows two requests a second and answers "n left". */
export async function checkTwoASecond(port: number): Promise<void> {
  const ask = () => fetch(`http://127.0.0.1:${port}/`, { headers: { accept: 'application/json' } })
  const answers = [await ask(), await ask(), await ask()]
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 429],
  )
  assert.equal(await answers[1].text(), '0 left')
  assert.equal(answers[2].headers.get('retry-after'), '1')
  assert.match(answers[2].headers.get('ratelimit') ?? '', /r=0/)
  const { retryAfterMs } = (await answers[2].json()) as { retryAfterMs: number }
  assert.ok(retryAfterMs > 0 && retryAfterMs <= 1000)
  await sleep(retryAfterMs + 2)
  assert.equal((await ask()).status, 200)
}
