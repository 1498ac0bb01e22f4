import { RedisServer } from './support/redis-server.js'
const server = await RedisServer.start()
const client = server.client()
const row = 'abcdefghij:12345,123,0,0,11222,0,1246,0;'
for (const buckets of [1, 4, 16, 64]) {
  for (let s = 0; s < 90; s++) for (let b = 0; b < buckets; b++) await client.hset(`s${buckets}:${s}`, String(b), row.repeat(1000 / buckets))
  await client.config('RESETSTAT')
  for (let s = 0; s < 90; s++) await client.hgetall(`s${buckets}:${s}`)
  const keys = Array.from({ length: 90 }, (_, s) => `s${buckets}:${s}`)
  for (let s = 0; s < 90; s += 10) await client.eval(`local r = {} for i = 1, #KEYS do r[i] = redis.call('HGETALL', KEYS[i]) end return r`, 10, ...keys.slice(s, s + 10))
  for (let s = 0; s < 90; s += 10) await client.eval_ro(`local r = {} for i = 1, #KEYS do r[i] = table.concat(redis.call('HVALS', KEYS[i])) end return table.concat(r, '|')`, 10, ...keys.slice(s, s + 10))
  const info = await client.info('commandstats')
  console.log(buckets, /cmdstat_hgetall:.*/.exec(info)?.[0], /cmdstat_eval:.*/.exec(info)?.[0], /cmdstat_eval_ro:.*/.exec(info)?.[0])
}
await server.stop()
