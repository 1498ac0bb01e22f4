// npm run verify -- histories --minutes 10 --seed 1 --servers single|cluster|sentinel|all --processes 8 --peer name
// Processes use everything at once on real servers, which stop, die, forget, move and cut connections; then the checker
// reads what they wrote.
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { check, tableOf, textOf } from './checker.js'
import { PEERS } from './peers.js'
import { playRound } from './round.js'
import type { Topology } from './servers.js'
import { RUN_SUBJECTS } from './subjects.js'

/** More would not fit into memory at once; a longer run has several rounds, each with servers of its own. */
const ROUND_MINUTES = 5
const ALL: readonly Topology[] = ['single', 'cluster', 'sentinel']

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: String(Date.now()) },
    servers: { type: 'string', default: 'all' },
    processes: { type: 'string', default: '8' },
    /** Another package instead of ours. */
    peer: { type: 'string' },
  },
})
const peer = values.peer === undefined ? undefined : PEERS[values.peer]
if (values.peer !== undefined && peer === undefined) {
  throw new Error(`--peer ${values.peer}: expected one of ${Object.keys(PEERS).join(', ')}`)
}
const subjects = peer?.subjects ?? RUN_SUBJECTS
const possible = peer?.client === 'upstash' ? ALL.slice(0, 1) : ALL
const topologies = values.servers === 'all' ? possible : possible.filter(one => one === values.servers)
if (topologies.length === 0) throw new Error(`--servers ${values.servers}: expected ${possible.join(', ')} or all`)
const minutes = Number(values.minutes)
const rounds = Math.max(topologies.length, Math.ceil(minutes / ROUND_MINUTES))
let broken = 0
let total = 0
for (let round = 0; round < rounds; round++) {
  const topology = topologies[round % topologies.length]
  const seed = rounds === 1 ? values.seed : `${values.seed}.${round + 1}`
  const { history, counts, folder, started } = await playRound({
    topology,
    seed,
    program: `./verification/histories/${peer ? 'peer-program' : 'program'}.ts`,
    subjects,
    clients: values.peer === undefined ? undefined : [values.peer],
    processes: Number(values.processes),
    lengthMs: (minutes * 60_000) / rounds,
  })
  const excused = new Map<string, number>()
  const violations = check(history, excused).filter(({ rule }) => peer?.rules.includes(rule) ?? true)
  const versions = (peer?.packages ?? []).map(name => {
    return `${name} ${JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8')).version}`
  })
  if (peer) console.log(`\n${versions.join(', ')}; rules: ${peer.rules.join(', ')}`)
  console.log(`\n${topology}, seed ${seed}\n\n${tableOf(history, excused)}\n`)
  for (const [name, count] of counts) console.log(`${String(count).padStart(5)}  ${name}`)
  for (const violation of violations) console.log(`\n${textOf(violation)}`)
  const { length } = history.operations
  console.log(`\n${length} operations of ${started} processes, ${violations.length} violations; seed ${seed}`)
  if (violations.length > 0) console.log(`the history is in ${folder.path}`)
  else folder.remove()
  broken += violations.length
  total += length
}
console.log(`\n${total} operations, ${broken} violations; --seed ${values.seed}`)
process.exitCode = broken === 0 ? 0 : 1
