// Rate limiting in a few seconds: an Express service on the memory store gets real HTTP requests from three clients. The demo prints which
// requests pass, which are refused, and when they may come back; then a client comes back too early, and at the promised moment.
//
//   npm run demo
//   npm run demo -- --dashboard      a service with traffic and its dashboard, over a Redis of its own
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import express from 'express'
import { rateLimit } from 'spillway/express'

if (process.argv.includes('--dashboard')) {
  await showDashboard()
  process.exit()
}

const POLICY = '5/2s'

const app = express()
app.use(rateLimit({ policy: POLICY, key: req => req.get('x-client') }))
app.get('/', (_req, res) => {
  res.send('hello')
})
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
process.once('SIGINT', () => process.exit(130))

const startedAt = performance.now()

interface Reply {
  readonly status: number
  readonly retryAfterMs: number
  readonly receivedAt: number
}

async function request(client: string, note = ''): Promise<Reply> {
  const response = await fetch(url, { headers: { 'x-client': client, accept: 'application/problem+json' } })
  const receivedAt = performance.now()
  const problem = response.ok ? undefined : ((await response.json()) as { retryAfterMs: number })
  const retryAfterMs = problem?.retryAfterMs ?? 0
  const verdict = response.ok
    ? `200 passed    ${response.headers.get('ratelimit')}`
    : `${response.status} refused   come back in ${retryAfterMs} ms (Retry-After: ${response.headers.get('retry-after')})`
  const at = `${((receivedAt - startedAt) / 1000).toFixed(2)} s`
  console.log(`${at.padStart(8)}  ${client.padEnd(6)} ${verdict}${note && `   ← ${note}`}`)
  return { status: response.status, retryAfterMs, receivedAt }
}

function expectStatus(reply: Reply, status: number, claim: string): void {
  if (reply.status === status) return
  console.error(`Wrong: ${claim}, but the answer was ${reply.status}`)
  process.exit(1)
}

console.log(`An Express service on ${url}, limited to ${POLICY} for each client. Requests from three clients:\n`)
let refusal: Reply | undefined
for (let round = 1; round <= 7; round++) {
  for (const client of ['ann', 'bob', 'cy']) {
    // Only ann sends many requests.
    if (client !== 'ann' && round % 3 !== 0) continue
    const reply = await request(client)
    if (client === 'ann' && round > 5) {
      expectStatus(reply, 429, "ann's requests beyond the fifth are refused")
      refusal = reply
    } else expectStatus(reply, 200, `${client} is within the limit`)
  }
  await sleep(60)
}

const promised = refusal as Reply
console.log(`\nann was told ${promised.retryAfterMs} ms. She tries half-way, and then at the promised moment:\n`)
await sleep(promised.receivedAt + promised.retryAfterMs / 2 - performance.now())
expectStatus(await request('ann', 'too early, and it costs her nothing'), 429, 'half-way is too early')
await sleep(promised.receivedAt + promised.retryAfterMs - performance.now())
expectStatus(await request('ann', 'as promised'), 200, 'at the promised moment ann gets through')

console.log('\nEach refusal told the truth. To see it in a browser: npm run demo -- --dashboard')
server.closeAllConnections()
server.close()

/** Starts a Redis that keeps nothing, on a free port, and runs examples/dashboard.ts over it until Ctrl-C. */
async function showDashboard(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-demo-'))
  const port = await freePort()
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder]
  const redis = spawn('redis-server', options, { stdio: 'ignore' })
  const missing = await new Promise<boolean>(resolve => {
    redis.once('error', () => resolve(true))
    redis.once('spawn', () => resolve(false))
  })
  if (missing) {
    rmSync(folder, { recursive: true })
    console.log(
      'The dashboard needs redis-server: install it, like `apt-get install redis-server` or `brew install redis`.',
    )
    process.exit(1)
  }
  const env = { ...process.env, REDIS_URL: `redis://127.0.0.1:${port}` }
  // The example beside this one, run as this one is.
  const example = fileURLToPath(import.meta.url).replace(/demo(\.\w+)$/, 'dashboard$1')
  const service = spawn(process.execPath, [...process.execArgv, example], { env, stdio: 'inherit' })
  for (const sign of ['SIGINT', 'SIGTERM'] as const) process.on(sign, () => void service.kill(sign))
  await once(service, 'close')
  redis.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  return port
}
