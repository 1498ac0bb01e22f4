/**
 * Addresses and chains of proxies, each with what is expected, written by hand. A row of the corpus is a chain with one
 * of the addresses in the client's place.
 */

/** What a request's address is, by the lists below. */
export type Verdict = 'allow' | 'deny' | 'neither'

export const ALLOW = ['192.0.2.0/24', '2001:db8:900d::/48']
export const DENY = ['203.0.113.0/24', '2001:db8:bad::/48', '64:ff9b::c612:0/112']

/** [as it is written, its key, what the lists say] */
export const ADDRESSES: ReadonlyArray<readonly [written: string, key: string, verdict: Verdict]> = [
  ['203.0.113.9', '203.0.113.9', 'deny'],
  ['203.0.113.9:4711', '203.0.113.9', 'deny'],
  ['[203.0.113.9]', '203.0.113.9', 'deny'],
  ['::ffff:203.0.113.9', '203.0.113.9', 'deny'],
  ['::FFFF:CB00:7109', '203.0.113.9', 'deny'],
  ['0:0:0:0:0:ffff:cb00:7109', '203.0.113.9', 'deny'],
  ['[::ffff:203.0.113.9]:4711', '203.0.113.9', 'deny'],
  ['::ffff:203.0.113.9%eth0', '203.0.113.9', 'deny'],
  ['::203.0.113.9', '203.0.113.9', 'deny'],
  ['64:ff9b::203.0.113.9', '203.0.113.9', 'deny'],
  ['[64:ff9b::cb00:7109]:80', '203.0.113.9', 'deny'],
  ['2002:cb00:7109::1', '2002:cb00:7109::/56', 'deny'],
  ['[2002:cb00:7109:aa01::1]:80', '2002:cb00:7109:aa00::/56', 'deny'],
  ['198.18.5.5', '198.18.5.5', 'deny'],
  ['64:ff9b::198.18.5.5', '198.18.5.5', 'deny'],
  ['2001:db8:bad::1', '2001:db8:bad::/56', 'deny'],
  ['[2001:db8:bad::1]', '2001:db8:bad::/56', 'deny'],
  ['[2001:db8:bad::1]:4711', '2001:db8:bad::/56', 'deny'],
  ['2001:DB8:0BAD:FFFF::1', '2001:db8:bad:ff00::/56', 'deny'],
  ['192.0.2.7', '192.0.2.7', 'allow'],
  ['192.0.2.7:65535', '192.0.2.7', 'allow'],
  ['::ffff:c000:207', '192.0.2.7', 'allow'],
  ['2002:c000:207::1', '2002:c000:207::/56', 'allow'],
  ['2001:db8:900d:1234::1', '2001:db8:900d:1200::/56', 'allow'],
  ['[2001:db8:900d::1]:1', '2001:db8:900d::/56', 'allow'],
  ['198.51.100.1', '198.51.100.1', 'neither'],
  ['198.51.100.1:80', '198.51.100.1', 'neither'],
  ['2001:db8:1:2ff::3', '2001:db8:1:200::/56', 'neither'],
  ['fe80::1%eth0', 'fe80::/56', 'neither'],
  ['[fe80::1%25eth0]:80', 'fe80::/56', 'neither'],
  ['::1', '::/56', 'neither'],
  ['64:ff9b:1::203.0.113.9', '64:ff9b:1::/56', 'neither'],
  ['2002:cb01:7109::1', '2002:cb01:7109::/56', 'neither'],
]

/** Texts that are no addresses, in the place of one. */
export const RUBBISH = [
  'unknown',
  '_hidden',
  '-',
  'localhost',
  'unix:',
  '203.0.113',
  '203.0.113.256',
  '203.0.113.09',
  '0xcb.0.113.9',
  '203.0.113.9.1',
  '203.0.113.9/32',
  '203.0.113.9:http',
  '203.0.113.9:4711:1',
  '203.0.113.9 203.0.113.8',
  '::ffff:203.0.113.9.1',
  '2001:db8::bad::1',
  '12345::1',
  '[2001:db8:bad::1',
  '[2001:db8:bad::1]x',
  '2001:db8:bad::1]',
  'for=203.0.113.9',
] as const

/** The members of a chain: the client, forged entries, the proxies of this service, others, and no member. */
export type Name = 'client' | 'forged' | 'proxy1' | 'proxy2' | 'proxy3' | 'other' | 'rubbish' | 'nothing'

export const WRITTEN: Readonly<Record<Exclude<Name, 'client'>, string>> = {
  forged: '198.51.100.66',
  proxy1: '10.0.0.1',
  proxy2: '10.0.0.2:8080',
  proxy3: '[fd00::3]:443',
  other: '198.51.100.77',
  rubbish: 'unknown',
  nothing: '',
}

/** The keys of those who stay the same in all rows; the peer is 127.0.0.1. */
export const KEYS: Readonly<Record<string, string>> = {
  forged: '198.51.100.66',
  proxy1: '10.0.0.1',
  proxy2: '10.0.0.2',
  proxy3: 'fd00::/56',
  other: '198.51.100.77',
  peer: '127.0.0.1',
}

const PEER = '127.0.0.1'
const ALL = [PEER, '10.0.0.0/8', 'fd00::/8']
const HOPS: readonly Name[] = [
  'forged',
  'forged',
  'forged',
  'forged',
  'forged',
  'forged',
  'client',
  'proxy1',
  'proxy2',
  'proxy3',
]

export interface Chain {
  readonly proxies: number | readonly string[]
  /** From left to right, as in the header field; absent: the field is not sent. */
  readonly names: readonly Name[] | undefined
  /** The member that counts, and the one that counts if the client's place holds no address. */
  readonly counts: Name | 'peer'
  readonly countsIfUnreadable: Name | 'peer'
  /** Whether a warning is due, and whether one is if the client's place holds no address. */
  readonly warns: boolean
  readonly warnsIfUnreadable: boolean
}

/** [proxies, names, who counts, warning?, who if the client's address is rubbish, warning then?] */
const LISTED: ReadonlyArray<
  readonly [number | readonly string[], readonly Name[] | undefined, Name | 'peer', boolean, Name | 'peer', boolean]
> = [
  [0, undefined, 'peer', false, 'peer', false],
  [0, ['client'], 'peer', false, 'peer', false],
  [0, ['forged', 'client'], 'peer', false, 'peer', false],
  [1, undefined, 'peer', true, 'peer', true],
  [1, ['client'], 'client', false, 'peer', true],
  [1, ['forged', 'client'], 'client', false, 'peer', true],
  [1, ['forged', 'forged', 'client'], 'client', false, 'peer', true],
  [1, ['rubbish', 'client'], 'client', false, 'peer', true],
  [1, ['nothing', 'client'], 'client', false, 'peer', true],
  [1, ['client', 'proxy1'], 'proxy1', false, 'proxy1', false],
  [1, ['client', 'nothing'], 'peer', true, 'peer', true],
  [2, ['client'], 'peer', true, 'peer', true],
  [2, ['client', 'proxy1'], 'client', false, 'proxy1', true],
  [2, ['forged', 'client', 'proxy1'], 'client', false, 'proxy1', true],
  [2, ['client', 'rubbish', 'proxy1'], 'proxy1', true, 'proxy1', true],
  [2, ['client', 'rubbish'], 'peer', true, 'peer', true],
  [3, ['client', 'proxy1', 'proxy2'], 'client', false, 'proxy1', true],
  [3, ['proxy1', 'client'], 'peer', true, 'peer', true],
  [4, HOPS, 'client', false, 'proxy1', true],
  [3, HOPS, 'proxy1', false, 'proxy1', false],
  [10, HOPS, 'forged', false, 'proxy1', true],
  [11, HOPS, 'peer', true, 'proxy1', true],
  [[], ['client'], 'peer', false, 'peer', false],
  [['10.0.0.0/8'], ['client'], 'peer', false, 'peer', false],
  [['10.0.0.0/8'], ['client', 'proxy1'], 'peer', false, 'peer', false],
  [[PEER], undefined, 'peer', false, 'peer', false],
  [[PEER], ['client'], 'client', false, 'peer', true],
  [['127.0.0.0/8'], ['forged', 'client'], 'client', false, 'peer', true],
  [['::ffff:127.0.0.1'], ['forged', 'client'], 'client', false, 'peer', true],
  [[PEER], ['client', 'proxy1'], 'proxy1', false, 'proxy1', false],
  [ALL, ['forged', 'client', 'proxy1'], 'client', false, 'proxy1', true],
  [ALL, ['forged', 'client', 'proxy1', 'proxy2', 'proxy3'], 'client', false, 'proxy1', true],
  [ALL, ['client', 'other', 'proxy1'], 'other', false, 'other', false],
  [ALL, ['client', 'rubbish', 'proxy1'], 'proxy1', true, 'proxy1', true],
  [ALL, ['client', 'nothing', 'proxy1'], 'proxy1', true, 'proxy1', true],
  [ALL, ['proxy1', 'proxy2'], 'proxy1', false, 'proxy1', false],
  [ALL, ['proxy3'], 'proxy3', false, 'proxy3', false],
  [ALL, HOPS, 'client', false, 'proxy1', true],
]

export const CHAINS: readonly Chain[] = LISTED.map(
  ([proxies, names, counts, warns, countsIfUnreadable, warnsIfUnreadable]) => ({
    proxies,
    names,
    counts,
    warns,
    countsIfUnreadable,
    warnsIfUnreadable,
  }),
)

/** The fields in which a chain may be written. */
export const FIELDS: ReadonlyArray<{ header: string; write: (addresses: readonly string[]) => string }> = [
  { header: 'x-forwarded-for', write: addresses => addresses.join(', ') },
  {
    header: 'forwarded',
    write: addresses =>
      addresses
        .map((address, i) => (i % 2 === 0 ? `For="${address}";proto=https` : `by="[::1]:80,x";for="${address}"`))
        .join(','),
  },
]
