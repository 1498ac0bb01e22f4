// The cost of each algorithm and the units that it allows: memory a key, Redis CPU a decision, the most units in any
// window, the share of wrong decisions. The last two are the same on every machine; CPU depends on the machine and on
// what else it does.
//
//   node --import tsx bench/algorithms.ts
import { RedisServer } from '../test/support/redis-server.js'
import { poissonComparisons, wrongOnPoisson } from './accuracy/tables.js'
import { mostAllowed, mostAllowedTable } from './algorithms/most-allowed-table.js'
import { processMemory } from './algorithms/process-memory.js'
import { type RedisCpu, redisCpu } from './algorithms/redis-cpu.js'
import { redisMemory } from './algorithms/redis-memory.js'
import { STATES } from './algorithms/state.js'
import { figure, spread, tableText } from './contest/figures.js'

const server = await RedisServer.start()
const memory: { inProcess: number; usage: number; growth: number }[] = []
let cpu: Map<string, RedisCpu>
try {
  for (const state of STATES) memory.push({ inProcess: processMemory(state), ...(await redisMemory(server, state)) })
  cpu = await redisCpu(server, STATES)
} finally {
  await server.stop()
}

const whole = (bytes: number) => (bytes < 100 ? String(Math.round(bytes)) : figure(bytes))
const wrong = wrongOnPoisson(poissonComparisons())

const summary = {
  caption: 'Algorithms, 100/1m',
  head: [
    'Algorithm',
    'bytes a key in the process',
    'bytes a key in Redis',
    'Redis µs a decision',
    'most in any window',
    'in any tenth of it',
    'wrong decisions',
  ],
  rows: STATES.map(({ name, limit }, i) => [
    name,
    whole(memory[i].inProcess),
    whole(memory[i].usage),
    figure(cpu.get(name)!.together.value),
    ...mostAllowed(limit),
    limit.algorithm === 'sliding-counter' ? wrong : 'none',
  ]),
}
const inRedis = {
  caption: 'Memory in Redis',
  head: ['Bytes a key', 'MEMORY USAGE', 'growth of used_memory'],
  rows: STATES.map(({ name }, i) => [name, whole(memory[i].usage), whole(memory[i].growth)]),
}
const redisTime = {
  caption: 'Redis CPU, median of turns and quartiles',
  head: ['µs a decision', '512 in flight', 'one at a time'],
  rows: [...cpu].map(([name, { together, alone }]) => [name, spread(together), spread(alone)]),
}
console.log([summary, inRedis, redisTime, mostAllowedTable()].map(tableText).join('\n\n'))
