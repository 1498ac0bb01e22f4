import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { SharedPlaces } from '../../../src/http/concurrency/shared-places.js'
import type { ClientPort } from '../../../src/redis/client.js'
import { guardRedis } from '../../../src/redis/guarded-redis.js'
import type { HeldLease } from '../../../src/waiting/semaphore/lease.js'
import type { SemaphoreLine } from '../../../src/waiting/semaphore/line.js'
import { Renewals } from '../../../src/waiting/semaphore/renewals.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { monitor } from '../../support/monitor.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

let names = 0
const fresh = () => `many-${names++}`

function placesOf(client: Redis): SharedPlaces {
  const guarded = guardRedis(client, 10_000, undefined, { name: 'test', meanwhile: 'nothing is shared' })
  return new SharedPlaces({ client, prefix: fresh(), name: 'n', permits: 1, leaseMs: 30_000, guarded })
}

test('a place under a key that is used once costs at most ten commands, those of scripts included', async () => {
  const client = redis.client()
  const places = placesOf(client)
  ;(await places.enter('=warm'))!.leave()
  await client.ping()
  const seen: string[] = []
  const stop = await monitor(redis.port, ({ args }) => seen.push(String(args[0]).toLowerCase()))
  for (let i = 0; i < 20; i++) (await places.enter(`=${i}`))!.leave()
  await client.echo('end of the list')
  await eventually('all seen', async () => seen.includes('echo'))
  stop()
  expect(seen.filter(command => command === 'evalsha' || command === 'zrem')).toHaveLength(40)
  expect(seen.length / 20).toBeLessThanOrEqual(10)
  await places.close()
})

describe('a second connection', () => {
  const connections = async (name: string) =>
    String(await admin.client('LIST'))
      .split('\n')
      .filter(line => line.includes(` name=${name} `)).length

  test('is opened for places only while somebody waits for one', async () => {
    const connectionName = fresh()
    const client = redis.client({ connectionName })
    const places = placesOf(client)
    const place = (await places.enter('=k'))!
    expect(await connections(connectionName)).toBe(1)
    const next = places.wait('=k', 10_000, new AbortController().signal)
    await eventually('it listens', async () => (await connections(connectionName)) === 2)
    place.leave()
    ;(await next)!.leave()
    await places.close()
  })

  test('is opened for a lease by the first look at its signal', async () => {
    const connectionName = fresh()
    const client = redis.client({ connectionName })
    const lease = await new Semaphore(client, fresh(), { permits: 1 }).acquire()
    expect([await connections(connectionName), lease.held]).toEqual([1, true])
    expect(lease.signal.aborted).toBe(false)
    await eventually('it listens', async () => (await connections(connectionName)) === 2)
    await lease.release()
  })
})

test('a lease whose signal nobody looks at is known to be lost at the next extension', async () => {
  const name = fresh()
  const lease = await new Semaphore(redis.client(), name, { permits: 1 }).acquire({ lease: 1500 })
  expect(await new Semaphore(redis.client(), name).forceRelease(lease.id)).toBe(true)
  await eventually('it is lost', async () => !lease.held)
  // By its own clock it would have lasted longer.
  expect((lease as HeldLease).leftMs).toBeGreaterThan(0)
})

test('a reconnect looks at each of many leases of a semaphore a few times, and not once for each of the others', () => {
  const COUNT = 2000
  let looks = 0
  const ready: Array<() => void> = []
  const port = { cluster: false, onReady: (listener: () => void) => ready.push(listener) } as unknown as ClientPort
  const renewals = Renewals.of(port)
  const home = {} as SemaphoreLine
  for (let i = 0; i < COUNT; i++) {
    const lease = { renewAt: Number.POSITIVE_INFINITY, leftMs: 1e6, asking: false }
    renewals.add(
      Object.defineProperty(lease, 'home', {
        get() {
          looks++
          return home
        },
      }) as unknown as HeldLease,
    )
  }
  const { setImmediate: later } = globalThis
  return new Promise<void>(resolve => {
    for (const tell of ready) tell()
    later(() => {
      expect(looks).toBeGreaterThanOrEqual(COUNT)
      expect(looks).toBeLessThanOrEqual(5 * COUNT)
      resolve()
    })
  })
})
