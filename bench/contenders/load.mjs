// Clients of a web service, leaner than any HTTP client: on two cores the benchmark would mostly measure a heavy
// client. Every connection stays open, has one request in flight, and comes from its own address if the system has
// enough (127.0.0.0/8 on Linux).
import { once } from 'node:events'
import { connect } from 'node:net'
import { platform } from 'node:os'
import { answer, setup } from './answering.mjs'

const REQUEST = Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
const END = Buffer.from('\r\n\r\n')
const OK = Buffer.from('HTTP/1.1 200 ')
const BODY = 'hello'
const { connections } = setup

let requests = 0
let most = 0
let running = false

/**
 * Asks again and again, until it shall stop.
 *
 * @param {import('node:net').Socket} socket
 */
function ask(socket) {
  return new Promise((resolve, reject) => {
    /** @type {Buffer} */
    let rest = Buffer.alloc(0)
    const settle = () => socket.off('data', onData).off('close', onClose)
    const onClose = () => reject(new Error('the service closed a connection'))
    const onData = (/** @type {Buffer} */ data) => {
      rest = rest.length === 0 ? data : Buffer.concat([rest, data])
      const end = rest.indexOf(END)
      if (end < 0 || rest.length < end + END.length + BODY.length) return
      if (rest.compare(OK, 0, OK.length, 0, OK.length) !== 0 || rest.length !== end + END.length + BODY.length) {
        settle()
        reject(new Error(`the service said: ${rest}`))
        return
      }
      rest = Buffer.alloc(0)
      if (++requests >= most) running = false
      if (running) socket.write(REQUEST)
      else resolve(settle())
    }
    socket.on('data', onData).on('close', onClose)
    socket.write(REQUEST)
  })
}

/** By port. They stay open, so that no turn pays for connecting. */
const open = new Map()

/** @param {number} port */
async function connected(port) {
  const sockets = Array.from({ length: connections }, (_, i) =>
    connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      localAddress: platform() === 'linux' ? `127.0.0.${i + 2}` : undefined,
    }),
  )
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  // The service ends when its turns are over; who asks at that moment listens, too.
  for (const socket of sockets) socket.on('error', () => {}).on('close', () => open.delete(port))
  open.set(port, sockets)
  return sockets
}

/**
 * Keeps this process awake while it runs. Waking a process costs the writer as much as a small service needs for a
 * request, and the clients of a slower service sleep more often: that would be half of the measured time.
 */
function stayAwake() {
  if (running) setImmediate(stayAwake)
}

answer({
  /** For so long, or so many requests. */
  async load({ port, ms, count }) {
    /** @type {import('node:net').Socket[]} */
    const sockets = open.get(port) ?? (await connected(port))
    requests = 0
    most = count ?? Number.POSITIVE_INFINITY
    running = true
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    const timer =
      ms === undefined
        ? undefined
        : setTimeout(() => {
            running = false
          }, ms)
    stayAwake()
    await Promise.all(sockets.map(ask))
    clearTimeout(timer)
    const { user, system } = process.cpuUsage(cpu)
    return { requests, ms: performance.now() - startedAt, cpuUs: user + system }
  },
})
