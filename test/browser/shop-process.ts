/**
 * A process of a service with traffic, for the browser to watch. Sent 'login', it tells whether the next request of a
 * key is allowed.
 */
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../src/index.js'
import { reporter } from '../../src/operating/dashboard/index.js'
import { LivePolicies } from '../../src/operating/live/index.js'

const client = new Redis(String(process.env.REDIS_URL))
const observer = reporter({ client, every: '500ms', service: 'shop', version: '1.0.0' })
const live = new LivePolicies(client, { defaults: { api: '1000000/1h', login: '5/1h' } })
const store = new RedisStore(client)
const api = new RateLimiter({ name: 'api', store, observer, policy: live.policy('api', (key: string) => key) })
const login = new RateLimiter({ name: 'login', store, observer, policy: live.policy('login', (key: string) => key) })
const hostile = '<img src=x onerror=alert(1)>'

let count = 0
const traffic = setInterval(() => {
  count++
  void api.consume(`user:${count % 7}`)
  void login.consume(count % 3 === 0 ? hostile : '203.0.113.9')
}, 20)
process.on('message', async key => process.send?.((await api.consume(String(key))).allowed))
process.on('disconnect', () => {
  clearInterval(traffic)
  process.exit()
})
process.send?.('ready')
