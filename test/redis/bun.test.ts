import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { RedisStore } from '../../src/index.js'
import { portOf } from '../../src/redis/clients.js'
import { warnings } from '../support/warnings.js'

// Bun's client itself runs in test/runtimes; here are the states that take it half a minute.

/** What Bun's client has of its shape. */
class RedisClient {
  connected = false
  onconnect: (() => unknown) | null | undefined = undefined
  onclose: ((error: Error) => unknown) | null | undefined = undefined
  connects = 0
  connect = () => {
    this.connects++
    return new Promise(() => {})
  }
  send = async () => 'OK'
  evalsha() {}
  duplicate() {}
  client() {}

  up() {
    this.connected = true
    this.onconnect?.()
  }
  close() {
    this.connected = false
    this.onclose?.(new Error('Connection closed'))
  }
}

describe("Bun's client", () => {
  const warned = warnings()
  beforeEach(() => void jest.useFakeTimers())
  afterEach(() => void jest.useRealTimers())

  function watched() {
    const client = new RedisClient()
    const port = portOf(client, 'test')
    const heard: string[] = []
    port.onReady(() => heard.push('ready'))
    port.onLost(() => heard.push('lost'))
    return { client, port, heard }
  }

  test('is known by its shape', () => {
    expect(() => new RedisStore(new RedisClient())).not.toThrow()
  })

  test('starts with its first use, for a second; then it is down until it is connected', () => {
    const { client, port, heard } = watched()
    expect([port.state(), client.connects]).toEqual(['starting', 0])
    port.open()
    port.open()
    expect([port.state(), client.connects]).toEqual(['starting', 1])
    jest.advanceTimersByTime(1001)
    expect(port.state()).toBe('down')
    client.up()
    expect([port.state(), heard, warned.texts]).toEqual(['ready', ['ready'], []])
  })

  test('a loss that it does not tell is seen when it is looked at, or when it is connected again', () => {
    const { client, port, heard } = watched()
    client.up()
    client.connected = false
    expect([port.state(), heard]).toEqual(['down', ['ready', 'lost']])
    client.up()
    client.up()
    expect([port.state(), heard]).toEqual(['ready', ['ready', 'lost', 'ready', 'lost', 'ready']])
  })

  test('one that has given up causes one warning, when it is used; one that its owner closes does not', () => {
    const { client, port } = watched()
    client.up()
    client.close()
    expect([port.state(), warned.texts]).toEqual(['down', []])
    client.up()
    client.connected = false
    port.state()
    client.close()
    expect([port.state(), port.state(), warned.codes]).toEqual(['down', 'down', ['SPILLWAY_STORE']])
    expect(warned.texts[0]).toMatch(
      /has given up: its maxRetries .* like new RedisClient\(url, \{ maxRetries: 2 \*\* 31 - 1 \}\)/,
    )
  })

  test("its owner's listeners are called, whenever they are set", () => {
    const told: string[] = []
    const client = new RedisClient()
    client.onconnect = () => told.push('before')
    const port = portOf(client, 'test')
    client.up()
    client.onconnect = () => told.push('after')
    client.onclose = () => told.push('closed')
    port.state()
    client.up()
    client.close()
    expect([told, port.state()]).toEqual([['before', 'after', 'closed'], 'down'])
  })
})
