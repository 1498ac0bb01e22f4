// The cost of waiting, and of several limits, in Redis.
//
//   node --import tsx bench/acquire.ts     about a minute
import { RedisServer } from '../test/support/redis-server.js'
import { LINES, stand } from './acquire/line.js'
import { POLICIES, policyCosts } from './acquire/policy-cost.js'
import { waitingCost } from './acquire/waiting-cost.js'
import { figure, spread, tableText } from './contest/figures.js'

const server = await RedisServer.start()
const stood: Awaited<ReturnType<typeof stand>>[] = []
let costs: Awaited<ReturnType<typeof policyCosts>>
const crowds: Awaited<ReturnType<typeof waitingCost>>[] = []
try {
  for (const line of LINES) stood.push(await stand(server, line))
  for (const waiting of [100, 10_000, 50_000]) crowds.push(await waitingCost(server, waiting))
  costs = await policyCosts(server)
} finally {
  await server.stop()
}

const waiting = {
  caption: '101 ask at once for 10 a second, and the 51st gives up half a second later',
  head: ['who wait', 'grants', 'in the order asked', 'script calls', 'at most 3 a grant + 100', 'last grant after ms'],
  rows: stood.map(({ name, grants, inOrder, calls, lastMs }) => [
    name,
    String(grants),
    inOrder ? 'yes' : 'NO',
    String(calls),
    calls <= 3 * grants + 100 ? 'yes' : 'NO',
    lastMs.toFixed(0),
  ]),
}
const crowd = {
  caption: 'So many wait for one key, in one process: µs of server time (INFO commandstats, SLOWLOG)',
  head: [
    'waiting',
    'a join',
    'one of 1000 leaves in a tick',
    'calls for these',
    'a grant',
    'calls a grant, refund included',
    'longest call',
  ],
  rows: crowds.map(({ waiting, joinUs, leaveUs, leaveCalls, grantUs, grantCalls, longestUs }) => [
    String(waiting),
    joinUs.toFixed(1),
    leaveUs.toFixed(1),
    String(leaveCalls),
    grantUs.toFixed(0),
    grantCalls.toFixed(1),
    String(longestUs),
  ]),
}
const limits = {
  caption: 'One decision under one limit and under six, one at a time and 64 in flight; medians of turns and quartiles',
  head: [
    'policy',
    'µs in scripts, alone',
    'ratio',
    'ratio of Redis CPU',
    'µs in scripts, 64 in flight',
    'ratio',
    'round trips a decision, alone',
  ],
  rows: POLICIES.map(({ name }, i) => {
    const { alone, together, ratioAlone, ratioCpu, ratioTogether, roundTrips } = costs[i]
    return [
      name,
      spread(alone),
      figure(ratioAlone.value),
      figure(ratioCpu.value),
      spread(together),
      figure(ratioTogether.value),
      figure(roundTrips),
    ]
  }),
}
console.log([waiting, crowd, limits].map(tableText).join('\n\n'))
