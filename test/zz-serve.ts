import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { DelayQueue, RateLimiter, RedisStore, Semaphore, SharedRateLimiter } from '../src/index.js'
import { LivePolicies } from '../src/live/index.js'
import { dashboard, reporter } from '../src/dashboard/index.js'
import { RedisServer } from './support/redis-server.js'
const server = await RedisServer.start()
const client = server.client()
const observer = reporter({ client, service: 'shop', version: '1.2.0' })
const live = new LivePolicies(client, { defaults: { api: '1000/1m', login: '5/15m' } })
const store = new RedisStore(client)
const login = new RateLimiter({ policy: live.policy('login', (key: string) => key), name: 'login', store, observer })
const api = new RateLimiter({ policy: live.policy('api', (key: string) => key), name: 'api', store, observer })
const search = new RateLimiter({ policy: '20/1s token-bucket burst=40; 50000/1h', name: 'search', store, observer })
const semaphore = new Semaphore(client, 'reports', { permits: 8, observer } as never)
const rate = new SharedRateLimiter(client, 'partner-api', { observer } as never)
await rate.trySetRate({ rate: 5, interval: '1s' })
const queue = new DelayQueue(client, 'webhooks', { maxAttempts: 1, observer } as never)
for (let i = 0; i < 3; i++) await queue.push({ to: `https://customer-${i}.example/hook`, event: 'paid' })
for (let i = 0; i < 40; i++) await queue.push({ to: 'later' }, { delay: '10m' })
queue.consume(async () => { throw new Error('connect ECONNREFUSED 203.0.113.80:443') })
setInterval(() => { for (let i = 0; i < 3; i++) { login.consume(`10.0.${i}.${Math.floor(Math.random() * 200)}`); api.consume(`user:${Math.floor(Math.random() * 50)}`); search.consume(`k${Math.floor(Math.random() * 9)}`) } if ((Date.now() / 1000) % 120 > 15) { login.consume('203.0.113.9'); login.consume('203.0.113.9'); if (Math.random() < 0.1) login.consume('<img src=x onerror=alert(1)>') } }, 60)
for (let i = 0; i < 10; i++) (async () => { for (;;) { const lease = await semaphore.acquire(); await new Promise(r => setTimeout(r, 2000 + Math.random() * 8000)); await lease.release() } })()
for (let i = 0; i < 14; i++) (async () => { for (;;) await rate.acquire() })()
const handler = dashboard({ client, live, authorize: req => (req.url?.includes('readonly') || req.headers.cookie?.includes('readonly') ? 'read' : { access: 'write', user: 'ann' }) })
createServer((req, res) => handler(req, res)).listen(Number(process.env.PORT ?? 4400), '127.0.0.1', () => console.log(`http://127.0.0.1:${process.env.PORT ?? 4400}/ redis ${server.url} ${process.pid}`))
process.on('SIGTERM', async () => { await server.stop(); process.exit(0) })
