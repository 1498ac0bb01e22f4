// How many functions of src/ one allowed request calls, from the adapter to the client and back. Exact, on any machine.
//
//   node --import tsx bench/calls.ts                this tree
//   node --import tsx bench/calls.ts ../before      another one beside it
//   node --import tsx bench/calls.ts --functions    with the functions of each way
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, createServer, get, type IncomingMessage } from 'node:http'
import { Session } from 'node:inspector/promises'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import expressApp from 'express'
import { Redis } from 'ioredis'
import type * as Express from '../src/http/adapters/express.js'
import type * as Index from '../src/index.js'
import { RedisServer } from '../test/support/redis-server.js'
import { type Table, tableText } from './contest/figures.js'

const WAYS = ['Express over memory', 'Express over Redis']
const REQUESTS = 1000
/** Requests before the count: connecting, loading the script, the first use of a key. */
const WARM_UP = 50
/**
 * A name that tsx gives to a function costs a call, which is not in the package; the fields of an object belong to its
 * constructor.
 */
const NOT_OURS = new Set(['__name', '<instance_members_initializer>'])

/** Calls of a request by function. */
type Calls = ReadonlyMap<string, number>

const [command, root] = process.argv.slice(2)
if (command === 'count') console.log(JSON.stringify(await countIn(root)))
else compare()

/** Each tree in a process of its own: two copies of an adapter on one framework disturb each other. */
function compare(): void {
  const args = process.argv.slice(2)
  const others = args.filter(arg => !arg.startsWith('--'))
  const trees = [...others.map(tree => resolve(tree)), resolve(import.meta.dirname, '..')]
  const counts = trees.map(tree => {
    const child = ['--import', 'tsx', import.meta.filename, 'count', tree]
    return new Map(
      JSON.parse(execFileSync(process.execPath, child, { encoding: 'utf8' })) as [string, [string, number][]][],
    )
  })
  const rows = WAYS.map(way => [way, ...counts.map(count => sum(new Map(count.get(way))).toFixed(1))])
  if (args.includes('--functions')) for (const way of WAYS) printFunctions(way, new Map(counts.at(-1)?.get(way)))
  const table: Table = { caption: 'Calls of functions of src/ for an allowed request', head: ['', ...trees], rows }
  console.log(tableText(table))
}

async function countIn(tree: string): Promise<[way: string, calls: [string, number][]][]> {
  // By its list of entries, because another tree may keep its files in other folders.
  const entries = JSON.parse(readFileSync(join(tree, 'scripts/entries.json'), 'utf8')) as Record<string, string>
  const entry = (name: string) => import(pathToFileURL(join(tree, entries[name])).href)
  const { rateLimit } = (await entry('express')) as typeof Express
  const { RedisStore } = (await entry('index')) as typeof Index
  const server = await RedisServer.start()
  const client = new Redis({ host: server.host, port: server.port })
  try {
    const stores = [undefined, new RedisStore(client)]
    const counts: [string, [string, number][]][] = []
    for (const [i, store] of stores.entries()) {
      counts.push([WAYS[i], [...(await callsOf(tree, rateLimit({ policy: '100000/1m', store })))]])
    }
    return counts
  } finally {
    client.disconnect()
    await server.stop()
  }
}

/** Counts while a service answers one request after another. */
async function callsOf(root: string, limit: expressApp.RequestHandler): Promise<Calls> {
  const app = expressApp()
  app.use(limit)
  app.get('/', (_req, res) => void res.send('hello'))
  const service = createServer(app).listen(0, '127.0.0.1')
  await once(service, 'listening')
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const { port } = service.address() as AddressInfo
  const ask = async (times: number) => {
    for (let i = 0; i < times; i++) await answered(port, agent)
  }
  await ask(WARM_UP)
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await session.post('Profiler.takePreciseCoverage')
  await ask(REQUESTS)
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  agent.destroy()
  service.close()
  const calls = new Map<string, number>()
  const source = pathToFileURL(join(root, 'src')).href
  for (const { url, functions } of result) {
    if (!url.startsWith(source)) continue
    const file = url.slice(source.length + 1).replace(/\?.*/, '')
    for (const { functionName, ranges } of functions) {
      const [{ count, startOffset }] = ranges
      if (count < REQUESTS / 2 || NOT_OURS.has(functionName)) continue
      calls.set(`${file} ${functionName || `(function at ${startOffset})`}@${startOffset}`, count / REQUESTS)
    }
  }
  return calls
}

async function answered(port: number, agent: Agent): Promise<void> {
  const [response] = (await once(get({ port, host: '127.0.0.1', agent }), 'response')) as [IncomingMessage]
  if (response.statusCode !== 200) throw new Error(`the service answered ${response.statusCode}`)
  response.resume()
  await once(response, 'end')
}

function sum(calls: Calls): number {
  return [...calls.values()].reduce((all, count) => all + count, 0)
}

function printFunctions(name: string, calls: Calls): void {
  console.log(`\n${name}\n`)
  for (const [text, count] of calls) console.log(`${count.toFixed(2).padStart(6)}  ${text.replace(/@\d+$/, '')}`)
  console.log('')
}
