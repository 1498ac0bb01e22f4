import { changesOf } from '../../support/line-words.js'

/**
 * The server of one waiting line in memory, by the rules of verification/proofs/waiting: what line_ask and line_walk
 * (lua/waiting/line) do for a rate whose permits are free again an interval after they were granted. It also keeps what the
 * properties are about: every grant, when, to whom, and whether it was given back.
 */
export interface Grant {
  /** What the waiter asked for: its own words. */
  readonly who: string
  readonly cost: number
  readonly at: number
  returned: boolean
}

interface Standing {
  readonly member: string
  readonly number: number
  readonly cost: number
  readonly who: string
  readonly ticket: number
}

interface Record {
  number: number
  stamp: string
  reply: unknown[] | undefined
  waiting: number
}

const GRACE_MS = 900
const CHECK_MS = 5000
const WALK = 200

export class LineOracle {
  grants: Grant[] = []
  /** Members that were told to ask. */
  notified: string[] = []
  line: Standing[] = []
  asks = new Map<string, number>()
  records = new Map<string, Record>()
  #tickets = 0

  constructor(
    public rate: number,
    public intervalMs: number,
    readonly now: () => number,
    /** The clock by which processes live, where it is another one than that of the permits. */
    readonly lifeNow: () => number = now,
  ) {}

  /** A copy of the whole state for `restore`: the state of a server that lost its newest writes. */
  snapshot(): () => void {
    const { line, grants, rate } = this
    const [lineThen, grantsThen] = [[...line], grants.map(grant => ({ ...grant }))]
    const [asksThen, recordsThen] = [
      new Map(this.asks),
      new Map([...this.records].map(([id, record]) => [id, { ...record }])),
    ]
    return () => {
      this.line = lineThen
      this.asks = asksThen
      this.records = recordsThen
      this.rate = rate
      // Forgotten grants no longer count; the record of grants for the properties is kept elsewhere.
      this.grants = grantsThen
    }
  }

  setRate(rate: number): void {
    this.rate = rate
    this.notified.push(...this.asks.keys())
    this.#walk(undefined, [], [], { ms: CHECK_MS })
  }

  ask(words: readonly string[]): unknown[] {
    const [member, numberWord, stamp, replaces, , text] = words
    const changes = changesOf(text)
    const number = Number(numberWord)
    const record = this.records.get(member)
    if (record?.number === number && record.reply) {
      const reply = [...record.reply]
      reply[3] = this.now() - Number(reply[2])
      reply[4] = Math.max(0, (this.asks.get(member) ?? this.now() + CHECK_MS) - this.now())
      return reply
    }
    if (number === 1 ? record !== undefined : record?.number !== number - 1 || record.stamp !== stamp) return [0]
    if (record && record.waiting > 0 && !this.asks.has(member)) return [0]
    if (number === 1 && replaces !== '') {
      this.asks.delete(replaces)
      this.records.set(replaces, { number: -1, stamp: '', reply: undefined, waiting: 0 })
    }
    const next = { ms: CHECK_MS }
    const granted: number[] = []
    const refused: number[] = []
    const firstTicket = this.#change(member, changes, granted, refused)
    this.#walk(member, granted, refused, next)
    const waiting = this.line.filter(waiter => waiter.member === member).length
    if (waiting > 0) this.asks.set(member, this.lifeNow() + next.ms)
    else this.asks.delete(member)
    const stamped = String(++this.#tickets)
    const late = Math.max(50, Math.floor(this.intervalMs / 10))
    const reply = [
      1,
      stamped,
      this.now(),
      0,
      next.ms,
      waiting,
      firstTicket,
      this.rate,
      late,
      60_000,
      granted,
      refused,
      [],
    ]
    this.records.set(member, { number, stamp: stamped, reply, waiting })
    return reply
  }

  #change(member: string, changes: readonly string[], granted: number[], refused: number[]): number {
    let firstTicket = 0
    let measured = false
    for (let i = 0; i < changes.length; i += 4) {
      const [letter, tail, ticket, third] = changes.slice(i, i + 4)
      const [number, cost, who] = [Number(tail.split(' ')[0]), Number(tail.split(' ')[1]), tail.split(' ')[2]]
      if (letter === 'l') {
        this.line = this.line.filter(waiter => waiter.member !== member || waiter.number !== number)
        continue
      }
      if (letter === 'r' || letter === 'g') {
        const grant = this.grants.find(
          each => each.who === who && each.at === Number.parseInt(third, 10) && !each.returned,
        )
        if (grant) grant.returned = true
      }
      if (letter === 'r') continue
      if (letter === 'j' && !measured) {
        measured = true
        this.#dropDead()
      }
      const given = ticket === '' ? ++this.#tickets : Number(ticket)
      this.#tickets = Math.max(this.#tickets, given)
      if (ticket === '') firstTicket ||= given
      if (ticket === '' && cost > this.rate) {
        refused.push(number, -1)
        continue
      }
      if (ticket === '' && this.line.length === 0 && this.when(cost) === 0) {
        granted.push(number)
        this.grants.push({ who, cost, at: this.now(), returned: false })
        continue
      }
      this.line.push({ member, number, cost, who, ticket: given })
      this.line.sort((a, b) => a.ticket - b.ticket || (a.member < b.member ? -1 : 1))
    }
    return firstTicket
  }

  #dropDead(): void {
    const isDead = ({ member }: Standing) => {
      const by = this.asks.get(member)
      if (by !== undefined && this.lifeNow() <= by + GRACE_MS) return false
      this.asks.delete(member)
      return true
    }
    while (this.line.length > 0 && isDead(this.line[0])) this.line.shift()
  }

  /** Ms until so many units fit. */
  when(units: number): number {
    const counted = this.grants.filter(({ at, returned }) => !returned && this.now() - at < this.intervalMs)
    let free = this.rate - counted.reduce((sum, { cost }) => sum + cost, 0)
    const windows = Math.floor((units - 1) / this.rate)
    const needed = units - windows * this.rate
    if (needed <= free) return windows * this.intervalMs
    for (const { at, cost } of counted.sort((a, b) => a.at - b.at)) {
      free += cost
      if (needed <= free) return at + this.intervalMs - this.now() + windows * this.intervalMs
    }
    return (windows + 1) * this.intervalMs
  }

  #walk(asker: string | undefined, granted: number[], refused: number[], next: { ms: number }): void {
    let ahead = 0
    const gone = new Set<Standing>()
    for (const waiter of this.line.slice(0, WALK)) {
      const { member, number, cost, who } = waiter
      const mine = member === asker
      let by = this.asks.get(member)
      if (!mine && by !== undefined && this.lifeNow() > by + GRACE_MS) {
        this.asks.delete(member)
        by = undefined
      }
      if (!mine && by === undefined) {
        gone.add(waiter)
        continue
      }
      if (!mine && by! <= this.lifeNow()) next.ms = Math.min(next.ms, by! + GRACE_MS + 1 - this.lifeNow())
      const wait = cost > this.rate ? -1 : this.when(ahead + cost)
      if (mine && wait === 0) {
        granted.push(number)
        this.grants.push({ who, cost, at: this.now(), returned: false })
        gone.add(waiter)
      } else if (mine && wait < 0) {
        refused.push(number, -1)
        gone.add(waiter)
      } else if (mine) {
        next.ms = Math.min(next.ms, wait)
        break
      } else {
        this.#notify(member, Math.max(0, wait))
        if (wait > 0) break
        if (wait === 0) ahead += cost
      }
    }
    if (asker !== undefined && this.line.some(waiter => waiter.member === asker)) next.ms = Math.min(next.ms, 1000)
    this.line = this.line.filter(waiter => !gone.has(waiter))
  }

  #notify(member: string, ms: number): void {
    if ((this.asks.get(member) ?? 0) <= this.lifeNow() + ms) return
    this.asks.set(member, this.lifeNow() + ms)
    this.notified.push(member)
  }
}
