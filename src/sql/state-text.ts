import { algorithmOf, type State } from '../limiter/algorithms/registry.js'
import { append, type SpendLog, slidingWindow } from '../limiter/algorithms/sliding-window.js'
import type { AlgorithmName } from '../limiter/core/limit.js'

/** A state as a list of numbers, for the text of a row. */
export function pack(algorithm: AlgorithmName, state: State): number[] {
  const { row } = algorithmOf(algorithm)
  if (row === undefined) return packLog(state as SpendLog)
  const cells = new Float64Array(row.width)
  row.write(cells, 0, state)
  return Array.from(cells)
}

/** The state of `pack`, with nothing that another state shares. */
export function unpack(algorithm: AlgorithmName, numbers: readonly number[]): State {
  return algorithmOf(algorithm).row?.read(Float64Array.from(numbers), 0) ?? unpackLog(numbers)
}

/** Of each entry what its moment and total have grown by. */
function packLog(log: SpendLog): number[] {
  const numbers: number[] = []
  if (log.total === log.gone) return numbers
  let [before, spent] = [0, log.gone]
  for (let i = log.from; i <= log.to; i++) {
    const at = i === log.to ? log.newestAt : log.entries[2 * i]
    const total = i === log.to ? log.total : log.entries[2 * i + 1]
    numbers.push(at - before, total - spent)
    before = at
    spent = total
  }
  return numbers
}

function unpackLog(numbers: readonly number[]): SpendLog {
  const log = slidingWindow.fresh()
  for (let i = 0, at = 0; i < numbers.length; i += 2) {
    at += numbers[i]
    append(log, log.total, at, numbers[i + 1])
  }
  return log
}
