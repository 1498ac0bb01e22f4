// How late a delay queue is, what it asks of Redis, and its bounds; against BullMQ in the same run.
//
//   node --import tsx bench/delay-queue.ts     about a minute and a half
import { tableText } from './contest/figures.js'
import { bounds } from './delay-queue/bounds.js'
import { lateness } from './delay-queue/lateness.js'

const late = await lateness()
const held = await bounds()

console.log(
  tableText({
    caption:
      '2000 messages due at random within 5 s, two consumers; ms late, and commands a message from push to acknowledgement',
    head: ['queue', 'deliveries', 'p50', 'p99', 'latest', 'commands, in scripts too', 'of them sent by clients'],
    rows: late.map(({ name, deliveries, p50, p99, most, commands, sent }) => [
      name,
      String(deliveries),
      String(p50),
      String(p99),
      String(most),
      commands.toFixed(1),
      sent.toFixed(1),
    ]),
  }),
)
console.log()
console.log(
  tableText({
    caption: 'Bounds',
    head: ['what', 'measured', 'at most', 'holds'],
    rows: held.map(({ what, measured, bound, holds }) => [what, measured, bound, holds ? 'yes' : 'NO']),
  }),
)
// Sockets of the peer may linger.
process.exit(0)
