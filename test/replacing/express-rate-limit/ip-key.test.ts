import { describe, expect, test } from '@jest/globals'
import { ipKeyGenerator as theirs } from 'express-rate-limit'
import { ipKeyGenerator } from '../../../src/replacing/express-rate-limit/index.js'
import { forRandom } from '../../support/run.js'

describe('ipKeyGenerator', () => {
  test.each<[string, string, (number | false)?]>([
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1', '192.0.2.1', 32],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::ffff:1.2.3.4', '1.2.3.4', false],
    ['::FFFF:1.2.3.4', '1.2.3.4', 64],
    ['::1.2.3.4', '1.2.3.4'],
    ['::ffff:102:304', '1.2.3.4'],
    ['0:0:0:0:0:ffff:0102:0304', '1.2.3.4'],
    ['0:0:0:0:0:0:1.2.3.4', '1.2.3.4', 128],
    ['::102:304', '::/56'],
    ['::1', '::/56'],
    ['2001:db8::1.2.3.4', '2001:db8::/56'],
    ['64:ff9b::1.2.3.4', '64:ff9b::/56'],
    ['64:ff9b::1.2.3.4', '64:ff9b::1.2.3.4', false],
    ['0123:4567:89AB:CDEF:0123:4567:89ab:cdef', '123:4567:89ab:cd00::/56'],
    ['123:4567:89ab:cdef:123:4567:89ab:cdef', '123:4567:89ab:cdef::/64', 64],
    ['123:4567:89ab:cdef:123:4567:89ab:cdef', '123:4567::/32', 32],
    ['2001:DB8::1', '2001:DB8::1', false],
    ['no address', 'no address'],
    ['', ''],
  ])('%s is %s', (...[ip, key, subnet]) => {
    expect(ipKeyGenerator(ip, subnet)).toBe(key)
    expect(theirs(ip, subnet)).toBe(key)
  })

  test('a request without an address has no key either', () => {
    expect(ipKeyGenerator(undefined as never)).toBe(theirs(undefined as never))
  })

  test.each([129, -1, 56.5])('a subnet of %s is an error', subnet => {
    expect(() => ipKeyGenerator('2001:db8::1', subnet)).toThrow('expected an integer from 1 to 128')
  })

  test('gives the same as express-rate-limit, for any address in any notation', async () => {
    await forRandom(2000, random => {
      const groups = Array.from({ length: 8 }, () =>
        random.pick([0, 0, 0, 0xffff, 0x64, 0xff9b, random.integer(0, 0xffff)]),
      )
      const ip = notationOf(groups, random)
      const subnet = random.pick<number | false>([56, 64, 32, 48, 60, random.integer(1, 128), false])
      expect([ip, subnet, ipKeyGenerator(ip, subnet)]).toEqual([ip, subnet, theirs(ip, subnet)])
    })
  })
})

function notationOf(groups: number[], random: { integer(low: number, high: number): number }): string {
  const dotted = random.integer(0, 2) === 0
  const [high, low] = groups.slice(6)
  const tail = `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
  const digits = groups.slice(0, dotted ? 6 : 8).map(group => group.toString(16))
  const padded = random.integer(0, 3) === 0 ? digits.map(group => group.padStart(4, '0').toUpperCase()) : digits
  const text = [...padded, ...(dotted ? [tail] : [])].join(':')
  // Whatever run of zeros comes first, however short.
  return random.integer(0, 1) === 0
    ? text
    : text
        .replace(/(^|:)0(:0)+(?=:|$)/, ':')
        .replace(/^:(?!:)/, '::')
        .replace(/:$/, '::')
}
