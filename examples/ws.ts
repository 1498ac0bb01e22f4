// A WebSocket service that accepts ten messages of each client in any ten seconds, and answers each message that it
// drops.
//
//   node --import tsx examples/ws.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { addressKey } from 'spillway/node'
import { limitMessages } from 'spillway/ws'
import { WebSocket, WebSocketServer } from 'ws'

const byAddress = addressKey()
const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
server.on('connection', (socket, req) => {
  limitMessages(socket, {
    policy: '10/10s',
    key: byAddress(req),
    onLimit: ({ retryAfterMs }, data) => socket.send(`${data}: not heard, come back in ${retryAfterMs} ms`),
  })
  socket.on('message', data => socket.send(`${data}: heard`))
})
await once(server, 'listening')

const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
await once(client, 'open')
for (let i = 1; i <= 12; i++) {
  client.send(`message ${i}`)
  const [answer] = await once(client, 'message')
  console.log(String(answer))
}
client.close()
server.close()
