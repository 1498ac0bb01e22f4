import { describe, expect, test } from '@jest/globals'
import { Client, type ClientOptions, parseClientOptions } from '../../../src/http/address/client.js'
import { type Framework, GONE, PASS, type Trust } from '../../../src/http/framework.js'
import { ResponseWatch } from '../../../src/http/response-watch.js'
import { warnings } from '../../support/warnings.js'
import { ADDRESSES, ALLOW, CHAINS, type Chain, DENY, FIELDS, KEYS, type Name, RUBBISH, WRITTEN } from './corpus.js'

interface Request {
  peer?: string
  address?: string
  headers?: Record<string, string | undefined>
  gone?: boolean
}

const frameworkOf = (trust: Trust): Framework<Request, object> => ({
  args: (req, res) => [req, res],
  name: 'Plain',
  address: req => req.address,
  peer: req => (req.gone ? undefined : (req.peer ?? '')),
  trust: () => trust,
  requestHeader: (req, name) => req.headers?.[name],
  watch: () => new ResponseWatch(() => ({ gone: true, stuck: false, taken: 0, watch() {}, unwatch() {} })),
})

const ANYBODY: Trust = { anybody: 'Plain believes everybody' }
const clientOf = (options: ClientOptions, trust: Trust = 'nobody') =>
  new Client(frameworkOf(trust), parseClientOptions('rateLimit', options))

/** The key of a request that no list has judged. */
function keyOf(client: Client<Request, object>, req: Request): string | undefined {
  const met = client.meet(req, {})
  return typeof met === 'string' ? client.key(req, met) : undefined
}

/** What the lists say of a request. */
function judge(client: Client<Request, object>, req: Request): 'allow' | 'deny' | 'neither' {
  const met = client.meet(req, {})
  if (typeof met !== 'object') return 'neither'
  return met === PASS ? 'allow' : met.refusal?.status === 403 ? 'deny' : 'neither'
}

const warned = warnings()

const describeChain = ({ proxies, names }: Chain) => `${JSON.stringify(proxies)}: ${names?.join(', ') ?? 'no field'}`

describe.each(FIELDS)('the client in $header', ({ header, write }) => {
  const lists = { allow: ALLOW, deny: DENY }
  const requestOf = (names: readonly Name[] | undefined, client: string): Request => ({
    peer: '127.0.0.1',
    headers: { [header]: names && write(names.map(name => (name === 'client' ? client : WRITTEN[name]))) },
  })

  test.each(CHAINS.map(chain => [describeChain(chain), chain] as const))('proxies %s', (_, chain) => {
    for (const [written, key, verdict] of ADDRESSES) {
      warned.clear()
      const options = { proxies: chain.proxies, addressHeader: header }
      const req = requestOf(chain.names, written)
      const isClient = chain.counts === 'client'
      const judged = judge(clientOf({ ...options, ...lists }), req)
      expect([written, judged]).toEqual([written, isClient ? verdict : 'neither'])
      warned.clear()
      const client = clientOf(options)
      expect([written, keyOf(client, req)]).toEqual([written, isClient ? key : KEYS[chain.counts]])
      keyOf(client, req)
      expect([written, warned.codes]).toEqual([written, chain.warns ? ['SPILLWAY_PROXY_HEADER'] : []])
    }
  })

  test.each(CHAINS.map(chain => [describeChain(chain), chain] as const))(
    'proxies %s, if the client’s place holds no address',
    (_, chain) => {
      for (const written of RUBBISH) {
        warned.clear()
        const client = clientOf({ proxies: chain.proxies, addressHeader: header })
        const req = requestOf(chain.names, written)
        expect([written, keyOf(client, req)]).toEqual([written, KEYS[chain.countsIfUnreadable]])
        keyOf(client, req)
        expect([written, warned.codes]).toEqual([written, chain.warnsIfUnreadable ? ['SPILLWAY_PROXY_HEADER'] : []])
      }
    },
  )
})

describe('Forwarded', () => {
  // [field, key with one proxy, why]
  test.each([
    ['for=203.0.113.9', '203.0.113.9', 'a token'],
    ['for=203.0.113.9;proto=http;by=10.0.0.1', '203.0.113.9', 'among others'],
    ['proto=http; FOR=203.0.113.9 ;by=10.0.0.1', '203.0.113.9', 'in any case, with space'],
    ['for="[2001:db8::1]:4711"', '2001:db8::/56', 'IPv6 with a port'],
    ['for="203.0.113.9:_port"', '203.0.113.9', 'a port that is hidden'],
    ['for="203\\.0.113.9"', '203.0.113.9', 'with an escape'],
    ['for=", for=203.0.113.9', '203.0.113.9', 'a quote that the client left open'],
    ['for="\\", for=203.0.113.9', '203.0.113.9', 'a quote that the client left open, escaped'],
    ['for=198.51.100.66", for=203.0.113.9', '203.0.113.9', 'a quote that the client only closes'],
    ['for="a,b", for="203.0.113.9";host="a,b;for=198.51.100.66"', '203.0.113.9', 'commas and semicolons in quotes'],
    ['for=198.51.100.66, proto=http', '127.0.0.1', 'no for in the last element'],
    ['for=198.51.100.66, for=203.0.113.9;for=203.0.113.8', '127.0.0.1', 'two of them in the last element'],
    ['for=198.51.100.66, for="203.0.113.9', '127.0.0.1', 'a quote left open in the last element'],
    ['xfor=203.0.113.9', '127.0.0.1', 'another name'],
  ])('%s is %s: %s', (forwarded, key) => {
    const client = clientOf({ proxies: 1, addressHeader: 'Forwarded' })
    expect(keyOf(client, { peer: '127.0.0.1', headers: { forwarded } })).toBe(key)
  })
})

describe('a header of the platform', () => {
  const key = (proxies: number | string[], value: string | undefined) =>
    keyOf(clientOf({ proxies, addressHeader: 'CF-Connecting-IP' }), {
      peer: '127.0.0.1',
      headers: { 'cf-connecting-ip': value, 'x-forwarded-for': '198.51.100.66' },
    })

  test.each(ADDRESSES)('holds one address, %s, whatever the number of proxies is', (written, expected) => {
    for (const proxies of [1, 2, 7, ['127.0.0.1']]) expect(key(proxies, ` ${written}`)).toBe(expected)
    for (const proxies of [0, [], ['10.0.0.0/8']]) expect(key(proxies, written)).toBe('127.0.0.1')
    expect(warned.texts).toEqual([])
  })

  test('with several addresses, other text or nothing gives the peer, with a warning', () => {
    for (const value of ['203.0.113.9, 203.0.113.8', 'unknown', undefined]) {
      warned.clear()
      expect(key(2, value)).toBe('127.0.0.1')
      expect(warned.codes).toEqual(['SPILLWAY_PROXY_HEADER'])
    }
  })
})

describe('warnings', () => {
  const forwarded: Request = { address: '203.0.113.9', headers: { 'x-forwarded-for': '198.51.100.66' } }

  test('about a framework that trusts any client come once, with or without the header field', () => {
    for (const req of [forwarded, { address: '203.0.113.9' }]) {
      warned.clear()
      const client = clientOf({}, ANYBODY)
      keyOf(client, req)
      keyOf(client, req)
      expect(warned.codes).toEqual(['SPILLWAY_PROXY'])
      expect(warned.texts[0]).toMatch(/Plain believes everybody.*rateLimit\(\{ proxies: 1 \}\)/)
    }
  })

  test('about the framework’s setting do not come if proxies are given, or some are trusted', () => {
    for (const client of [
      clientOf({ proxies: 0 }, ANYBODY),
      clientOf({ proxies: 0 }, 'nobody'),
      clientOf({}, 'some'),
    ]) {
      keyOf(client, { ...forwarded, peer: '203.0.113.9' })
    }
    expect(warned.texts).toEqual([])
  })

  test('of an address that a deny list cannot read come once, and not for an allow list', () => {
    const allowing = clientOf({ allow: ['10.0.0.0/8'] }, 'some')
    const denying = clientOf({ deny: ['10.0.0.0/8'] }, 'some')
    for (const address of ['unknown', 'x'.repeat(1000)]) expect(judge(allowing, { address })).toBe('neither')
    expect(warned.texts).toEqual([])
    for (const address of ['unknown', 'x'.repeat(1000)]) expect(judge(denying, { address })).toBe('neither')
    expect(warned.codes).toEqual(['SPILLWAY_ADDRESS'])
    expect(warned.texts[0]).toContain('cannot judge the address "unknown"')
  })

  test('of a request without an address come once, and never for a client that has gone', () => {
    const client = clientOf({ deny: ['10.0.0.0/8'] }, 'some')
    expect([client.meet({ gone: true }, {}), client.ownKey({ gone: true })]).toEqual([GONE, 'unknown'])
    expect(warned.texts).toEqual([])
    judge(client, {})
    expect([keyOf(client, {}), client.ownKey({})]).toEqual(['unknown', undefined])
    expect(warned.codes).toEqual(['SPILLWAY_NO_ADDRESS'])
  })

  test('do not come of a runtime that forgets an address from one look to the next: it is looked at once', () => {
    const client = clientOf({ deny: ['203.0.113.0/24'] }, 'some')
    const counting = clientOf({}, 'some')
    for (const address of ['203.0.113.9', '192.0.2.1']) {
      const forgetful = () => {
        let looks = 0
        return {
          get peer() {
            return looks++ === 0 ? address : undefined
          },
          get address() {
            return address
          },
        }
      }
      expect(judge(client, forgetful())).toBe(address === '192.0.2.1' ? 'neither' : 'deny')
      expect(keyOf(counting, forgetful())).toBe(address)
    }
    expect(warned.texts).toEqual([])
  })

  test('about a framework that trusts any client come wherever the address is used, by lists, keys, and keys of a service', () => {
    const uses: Array<(client: Client<Request, object>) => unknown> = [
      client => client.meet(forwarded, {}),
      client => keyOf(client, forwarded),
      client => client.ownKey(forwarded),
    ]
    for (const use of uses) {
      warned.clear()
      use(clientOf({ allow: ['10.0.0.0/8'] }, ANYBODY))
      expect(warned.codes).toEqual(['SPILLWAY_PROXY'])
    }
  })

  test('do not come while no address is used', () => {
    clientOf({}, ANYBODY).meet(forwarded, {})
    expect(warned.texts).toEqual([])
  })

  test('a proxy that connects over a Unix socket is one of a number of proxies', () => {
    expect(keyOf(clientOf({ proxies: 1 }), forwarded)).toBe('198.51.100.66')
    expect(warned.texts).toEqual([])
  })
})
