// The table of docs/leases.md: what becomes of one sliding window that 1 to 1000 processes share, by four designs, in
// simulation. Requests come at twice the limit; evenly, or 95 % of them to one process.
//
//   node --import tsx bench/leases/table.ts
import { type DesignOutcome, delayedSync, exact, leases, localShare, type Scene } from './designs.js'

const LIMITS = ['1000/1s', '100000/1s', '10000/1m']
const PROCESSES = [1, 10, 100, 1000]

const percent = (part: number) => `${(100 * part).toFixed(1)} %`
const rate = ({ callsPerSecond }: DesignOutcome) =>
  Math.round(callsPerSecond).toLocaleString('en-US').replaceAll(',', ' ')

console.log(
  '| limit | processes | leases: used | uneven | calls/s | exact: used | calls/s | local share: used | uneven | delayed sync: excess | calls/s |',
)
console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
for (const policy of LIMITS) {
  for (const processes of PROCESSES) {
    const scene: Scene = { policy, processes, demand: 2, first: 1 / processes, windows: policy.endsWith('m') ? 3 : 5 }
    const uneven = { ...scene, first: 0.95 }
    const [leased, leasedUneven] = [await leases(scene), await leases(uneven)]
    const [asked, share, shareUneven, synced] = [
      await exact(scene),
      await localShare(scene),
      await localShare(uneven),
      await delayedSync(scene),
    ]
    if (leased.excess > 0 || leasedUneven.excess > 0) throw new Error(`${policy}: leases let too many pass`)
    const cells = [
      policy,
      processes,
      percent(leased.used),
      percent(leasedUneven.used),
      rate(leased),
      percent(asked.used),
      rate(asked),
      percent(share.used),
      percent(shareUneven.used),
      percent(synced.excess),
      rate(synced),
    ]
    console.log(`| ${cells.join(' | ')} |`)
  }
}
