import { describe, expect, jest, test } from '@jest/globals'
import { readAddress } from '../../../src/http/address/address.js'
import { AddressSet } from '../../../src/http/address/ranges.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { ofCases } from '../../support/cases.js'
import { randomFrom } from '../../support/random.js'

const setOf = (...entries: string[]) => new AddressSet(entries, 'rateLimit: deny')
const bitsOf = (set: AddressSet, text: string) => {
  const address = readAddress(text)
  return address === undefined ? undefined : set.match(address)
}

/** An address as a number of 128 bits, IPv4 mapped into it. */
type Bits = bigint
const IPV4 = 0xffffn << 32n
const ipv4Text = (bits: Bits) => [24n, 16n, 8n, 0n].map(shift => (bits >> shift) & 255n).join('.')
const ipv6Text = (bits: Bits) =>
  Array.from({ length: 8 }, (_, i) => ((bits >> BigInt(112 - 16 * i)) & 0xffffn).toString(16)).join(':')

/** The address of this number in a private network. */
const address = (i: number) => ipv4Text(0x0a000000n + BigInt(i))

/** How often `work` looks into a set or a map for one value, and how often it walks through one. */
function lookedInto(work: () => void): { looks: number; walks: number } {
  const looks = [jest.spyOn(Set.prototype, 'has'), jest.spyOn(Map.prototype, 'has'), jest.spyOn(Map.prototype, 'get')]
  const walks = [Set.prototype, Map.prototype].flatMap(kind =>
    (['keys', 'values', 'entries', 'forEach', Symbol.iterator] as const).map(name => jest.spyOn(kind, name as 'keys')),
  )
  const callsOf = (spies: readonly { readonly mock: { readonly calls: readonly unknown[] } }[]) =>
    spies.reduce((sum, { mock }) => sum + mock.calls.length, 0)
  try {
    work()
    return { looks: callsOf(looks), walks: callsOf(walks) }
  } finally {
    jest.restoreAllMocks()
  }
}

describe('a set of addresses', () => {
  // [entry, address, how many bits of it the entry names; -1: not in it]
  test.each<[string, string, number]>([
    ['192.0.2.7', '192.0.2.7', 128],
    ['192.0.2.7', '192.0.2.8', -1],
    ['192.0.2.7', '::ffff:192.0.2.7', 128],
    ['192.0.2.7', '::ffff:c000:207', 128],
    ['::ffff:192.0.2.7', '192.0.2.7', 128],
    ['10.0.0.0/8', '10.255.255.255', 104],
    ['10.0.0.0/8', '11.0.0.0', -1],
    ['10.20.30.40/8', '10.1.1.1', 104],
    ['192.0.2.0/25', '192.0.2.127', 121],
    ['192.0.2.0/25', '192.0.2.128', -1],
    ['0.0.0.0/0', '203.0.113.9', 96],
    ['0.0.0.0/0', '2001:db8::1', -1],
    ['::ffff:10.0.0.0/104', '10.1.2.3', 104],
    ['2001:db8::/32', '2001:0DB8:ffff::1', 32],
    ['2001:db8::/32', '2001:db9::1', -1],
    ['2001:db8::1', '2001:db8:0:0:0:0:0:1', 128],
    ['2001:db8::1/128', '2001:db8::2', -1],
    ['2001:db8:8000::/33', '2001:db8:7fff::1', -1],
    ['fe80::/10', 'fe80::1%eth0', 10],
    ['::/0', '2001:db8::1', 0],
    ['::/0', '192.0.2.7', -1],
    ['::/0', '::ffff:192.0.2.7', 0],
    ['64:ff9b::/96', '64:ff9b::192.0.2.7', 96],
    ['64:ff9b::/96', '192.0.2.7', -1],
    ['64:ff9b::/96', '::ffff:192.0.2.7', -1],
    ['64:ff9b::/32', '64:ff9b::c000:207', 32],
    ['64:ff9b::/32', '192.0.2.7', -1],
    ['64:ff9b::192.0.2.0/120', '192.0.2.7', 120],
    ['64:ff9b::192.0.2.0/120', '::ffff:192.0.2.7', 120],
    ['64:ff9b::192.0.2.0/120', '64:ff9b::c000:207', 120],
    ['64:ff9b::/97', '10.1.2.3', 97],
    ['64:ff9b::/97', '192.0.2.7', -1],
    ['::ffff:0:0/96', '::ffff:192.0.2.7', 96],
    ['::ffff:0:0/96', '192.0.2.7', -1],
    ['::ffff:0:0/96', '64:ff9b::192.0.2.7', -1],
    ['::ffff:0:0/80', '::ffff:c000:207', 80],
    ['::192.0.2.7', '192.0.2.7', 128],
    ['192.0.2.7', '2002:c000:207::1', 48],
    ['192.0.2.0/24', '2002:c000:2ff:1234::', 40],
    ['192.0.2.7', '2002:c000:208::1', -1],
    ['2002:c000:207::/48', '2002:c000:207:9::1', 48],
    ['2002:c000:207::/48', '192.0.2.7', -1],
    ['192.0.2.7', '192.0.2.7:4711', 128],
    ['2001:db8::1', '[2001:db8::1]:4711', 128],
    ['::1', '127.0.0.1', -1],
  ])('%s and %s: %p', (entry, address, bits) => {
    expect(bitsOf(setOf(entry), address)).toBe(bits)
  })

  test('gives the narrowest range that contains an address, whatever the order of the entries', () => {
    const ranges = ['10.0.0.0/8', '10.1.0.0/16', '10.1.1.1', '::/0']
    for (const set of [setOf(...ranges), setOf(...[...ranges].reverse())]) {
      expect(bitsOf(set, '10.1.1.1')).toBe(128)
      expect(bitsOf(set, '10.1.1.2')).toBe(112)
      expect(bitsOf(set, '10.2.1.2')).toBe(104)
      expect(bitsOf(set, '::2')).toBe(0)
    }
  })

  test('does not contain text that is no address', () => {
    const set = setOf('0.0.0.0/0', '::/0')
    for (const text of ['', 'localhost', '10.0.0', '10.0.0.01', '10.0.0.0/8', ':::', '1.2.3.4.5']) {
      expect([text, bitsOf(set, text)]).toEqual([text, undefined])
    }
    expect(bitsOf(setOf(), '10.0.0.1')).toBe(-1)
  })

  test('agrees with a comparison with each range', () => {
    const random = randomFrom('ranges')
    // Few values for each part, so that ranges nest and meet.
    const part = (bits: number) =>
      BigInt(random.pick([0, 1, 2 ** bits - 1, 2 ** (bits - 1), random.integer(0, 2 ** bits - 1)]))
    const anyIPv4 = () => IPV4 | (part(8) << 24n) | (part(8) << 16n) | (part(8) << 8n) | part(8)
    const anyIPv6 = () => (0x20010db8n << 96n) | (part(16) << 80n) | (part(16) << 64n) | part(16)
    for (let i = 0; i < ofCases(500); i++) {
      const ranges = Array.from({ length: random.integer(0, 12) }, () => {
        if (random.integer(0, 1) === 0)
          return { text: ipv4Text, of: anyIPv4(), bits: random.integer(96, 128), offset: 96 }
        return { text: ipv6Text, of: anyIPv6(), bits: random.integer(0, 128), offset: 0 }
      })
      const set = setOf(...ranges.map(({ text, of, bits, offset }) => `${text(of)}/${bits - offset}`))
      for (let j = 0; j < 20; j++) {
        const ipv4 = random.integer(0, 1) === 0
        const near = ranges.length > 0 && random.integer(0, 1) === 0 ? random.pick(ranges).of : undefined
        const address = near ?? (ipv4 ? anyIPv4() : anyIPv6())
        const written = address >> 32n === 0xffffn ? ipv4Text : ipv6Text
        const holding = ranges.filter(
          ({ text, of, bits }) => text === written && (of ^ address) >> BigInt(128 - bits) === 0n,
        )
        const expected = Math.max(-1, ...holding.map(({ bits }) => bits))
        const text = written(address)
        expect([text, bitsOf(set, text)]).toEqual([text, expected])
      }
    }
  })

  // Each look into a set is one step, however large the set.
  test.each([10, 100_000])(
    'of %i entries is searched by one look for each length of a prefix, and never walked through',
    count => {
      const set = setOf('192.0.2.0/24', '2001:db8::/32', ...Array.from({ length: count }, (_, i) => address(i)))
      const { looks, walks } = lookedInto(() => {
        expect(bitsOf(set, address(count))).toBe(-1)
        expect(bitsOf(set, address(count - 1))).toBe(128)
        expect(bitsOf(set, '192.0.2.7')).toBe(120)
        expect(bitsOf(set, '2001:db9::1')).toBe(-1)
      })
      expect([looks, walks]).toEqual([2 + 1 + 2 + 1, 0])
    },
  )

  test.each<[unknown, string]>([
    ['10.0.0.0/33', '"10.0.0.0/33"'],
    ['2001:db8::/129', '"2001:db8::/129"'],
    ['10.0.0.0/', '"10.0.0.0/"'],
    ['10.0.0.0/-1', '"10.0.0.0/-1"'],
    ['10.0.0.0/8/8', '"10.0.0.0/8/8"'],
    ['10.0.0.0/8.0', '"10.0.0.0/8.0"'],
    ['10.0.0.*', '"10.0.0.*"'],
    ['example.com', '"example.com"'],
    ['', '""'],
    [42, '42'],
    [null, 'null'],
  ])('%p is refused with what is expected', (entry, shown) => {
    const attempt = () => setOf(entry as string)
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(
      `rateLimit: deny: ${shown}: expected an address or a CIDR range, like "192.0.2.7", "10.0.0.0/8" or "2001:db8::/32"`,
    )
  })

  test.each(['10.0.0.0/8', new Set(['10.0.0.0/8']), null])('an invalid list is refused', entries => {
    const attempt = () => new AddressSet(entries as unknown as string[], 'rateLimit: allow')
    expect(attempt).toThrow(PolicyError)
    expect(attempt).toThrow(/^rateLimit: allow .*: expected a list, like \["10\.0\.0\.0\/8", "2001:db8::\/32"\]$/)
  })
})
