import { BlockList, isIPv6 } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { maskedAddress } from '../../../src/http/address/address.js'
import { ofCases } from '../../support/cases.js'

// [address, IPv6 subnet, key, why]
const rows: Array<[string, number | false, string, string]> = [
  ['203.0.113.7', 56, '203.0.113.7', 'an IPv4 address is its own key'],
  ['0.0.0.0', 56, '0.0.0.0', 'zero bytes are no leading zeros'],
  ['255.255.255.255', 56, '255.255.255.255', 'the last IPv4 address'],
  ['203.0.113.7:5678', 56, '203.0.113.7', 'some proxies append the port of the connection'],
  [' 203.0.113.7 ', 56, '203.0.113.7', 'space around it is not part of it'],
  ['::ffff:203.0.113.7', 56, '203.0.113.7', 'mapped, as a dual-stack socket writes it'],
  ['::FFFF:203.0.113.7', 56, '203.0.113.7', 'mapped, upper case'],
  ['::ffff:cb00:7107', 56, '203.0.113.7', 'mapped, in hexadecimal'],
  ['0:0:0:0:0:ffff:cb00:7107', 56, '203.0.113.7', 'mapped, in full'],
  ['0000:0000:0000:0000:0000:FFFF:CB00:7107', 56, '203.0.113.7', 'mapped, in full, with every zero'],
  ['0:0:0:0:0:ffff:203.0.113.7', false, '203.0.113.7', 'mapped, also where IPv6 is not masked'],
  ['::ffff:203.0.113.7%eth0', 56, '203.0.113.7', 'mapped, with a zone'],
  ['[::ffff:203.0.113.7]:5678', 56, '203.0.113.7', 'mapped, in brackets, with a port'],
  ['::203.0.113.7', 56, '203.0.113.7', 'compatible'],
  ['::cb00:7107', 56, '203.0.113.7', 'compatible, in hexadecimal'],
  ['64:ff9b::203.0.113.7', 56, '203.0.113.7', 'behind a NAT64'],
  ['64:ff9b:1::203.0.113.7', 48, '64:ff9b:1::/48', 'not the prefix of a NAT64'],
  ['::', 56, '::/56', 'the unspecified address carries no IPv4 address'],
  ['::1', false, '::1', 'nor does the loopback address'],
  ['::ff', false, '::ff', 'nor what would be in 0.0.0.0/8'],
  ['::ffff:0:203.0.113.7', 56, '::/56', 'one group off is not mapped'],
  ['2001:db8:0:ff00::1', 56, '2001:db8:0:ff00::/56', 'masked to the default subnet'],
  ['2001:db8:0:ffff:ffff:ffff:ffff:ffff', 56, '2001:db8:0:ff00::/56', 'the last address of that subnet'],
  ['2001:DB8:0:FF7A::1', 56, '2001:db8:0:ff00::/56', 'upper case'],
  ['2001:db8:0:ff7a::1', 64, '2001:db8:0:ff7a::/64', 'masked to /64'],
  ['2001:db8:1234:ff7a::1', 32, '2001:db8::/32', 'masked to /32'],
  ['2001:db8:1234:ff7a::1', 48, '2001:db8:1234::/48', 'masked to /48'],
  ['2001:db8::1', 128, '2001:db8::1/128', 'masked to one address'],
  ['ffff:ffff::', 1, '8000::/1', 'masked to one bit'],
  ['2001:db8:0:0:1:0:0:1', false, '2001:db8::1:0:0:1', 'not masked; the first of two equal runs is shortened'],
  ['2001:0:0:1:0:0:0:1', false, '2001:0:0:1::1', 'the longest run is shortened'],
  ['2001:db8:0:1:1:1:1:1', false, '2001:db8:0:1:1:1:1:1', 'a single zero group is not shortened'],
  ['1:2:3:4:5:6:7::', false, '1:2:3:4:5:6:7:0', 'the two colons may stand for one group'],
  ['fe80::1%eth0', false, 'fe80::1', 'the zone is the name of our own interface'],
  ['[2001:db8::1]', 56, '2001:db8::/56', 'in brackets'],
  ['[2001:db8::1]:443', 56, '2001:db8::/56', 'in brackets, with a port'],
  ['Unknown', 56, 'unknown', 'no address: its own key'],
  ['crawler.example.com', 56, 'crawler.example.com', 'a host name in a log'],
  ['256.1.1.1', 56, '256.1.1.1', 'no address'],
  ['1.2.3', 56, '1.2.3', 'no address'],
  ['01.2.3.4', 56, '01.2.3.4', 'no address: octal or decimal?'],
  ['1.2.3.4.5', 56, '1.2.3.4.5', 'no address'],
  ['', 56, '', 'nothing'],
  ['2001:db8::1::2', 56, '2001:db8::1::2', 'no address: two gaps'],
  ['1:2:3:4:5:6:7:8:9', 56, '1:2:3:4:5:6:7:8:9', 'no address: nine groups'],
  ['1:2:3:4::5:6:7:8', 56, '1:2:3:4::5:6:7:8', 'no address: the gap stands for nothing'],
  ['12345::', 56, '12345::', 'no address: five digits'],
  ['[::1', 56, '[::1', 'no address: the bracket is not closed'],
]

test.each(rows)('%s /%s is %s: %s', (address, subnet, key) => {
  expect(maskedAddress(address, subnet)).toBe(key)
})

const word = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }))
const words = fc.array(word, { minLength: 8, maxLength: 8 })

describe('for any address', () => {
  test('all notations give the same key', () => {
    fc.assert(
      fc.property(words, fc.infiniteStream(fc.nat()), fc.integer({ min: 1, max: 128 }), (groups, choices, subnet) => {
        const text = notation(groups, () => choices.next().value)
        expect([text, isIPv6(text)]).toEqual([text, true])
        expect(maskedAddress(text, subnet)).toBe(maskedAddress(plain(groups), subnet))
        expect(maskedAddress(text, false)).toBe(maskedAddress(plain(groups), false))
      }),
      { numRuns: ofCases(2000) },
    )
  })

  test('an unmasked key is the shortest form, as the URL standard writes it', () => {
    fc.assert(
      fc.property(words, groups => {
        fc.pre(!carriesIPv4(groups))
        expect(`[${maskedAddress(plain(groups), false)}]`).toBe(new URL(`http://[${plain(groups)}]/`).hostname)
      }),
      { numRuns: ofCases(2000) },
    )
  })

  test('two addresses have the same key exactly if they are in the same subnet', () => {
    fc.assert(
      fc.property(words, fc.nat(127), fc.integer({ min: 1, max: 128 }), (groups, bit, subnet) => {
        const other = groups.map((group, i) => (i === bit >> 4 ? group ^ (0x8000 >> (bit & 15)) : group))
        fc.pre(!carriesIPv4(groups) && !carriesIPv4(other))
        const network = new BlockList()
        network.addSubnet(plain(groups), subnet, 'ipv6')
        const same = maskedAddress(plain(groups), subnet) === maskedAddress(plain(other), subnet)
        expect(same).toBe(network.check(plain(other), 'ipv6'))
      }),
      { numRuns: ofCases(2000) },
    )
  })
})

function plain(groups: number[]): string {
  return groups.map(group => group.toString(16)).join(':')
}

function carriesIPv4(groups: number[]): boolean {
  return /^[\d.]+$/.test(maskedAddress(plain(groups), false))
}

/**
 * One of the many ways to write an address: case, leading zeros, a gap somewhere, the last groups in decimal, a zone.
 */
function notation(groups: number[], next: () => number): string {
  const written = groups.map(group => {
    const digits = group.toString(16)
    const padded = digits.padStart(digits.length + (next() % (5 - digits.length)), '0')
    return next() % 2 ? padded.toUpperCase() : padded
  })
  if (next() % 3 === 0) {
    const bytes = [groups[6] >> 8, groups[6] & 255, groups[7] >> 8, groups[7] & 255]
    written.splice(6, 2, bytes.join('.'))
  }
  const zone = next() % 4 === 0 ? '%eth0' : ''
  const start = next() % written.length
  let length = 0
  while (start + length < Math.min(written.length, 7) && groups[start + length] === 0) length++
  if (written.length === 7) length = Math.min(length, 6 - start)
  if (length < 1) return written.join(':') + zone
  return `${written.slice(0, start).join(':')}::${written.slice(start + length).join(':')}${zone}`
}
