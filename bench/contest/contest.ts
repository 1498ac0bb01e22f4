import { type Contender, ContenderProcess } from './contender.js'
import type { Effort } from './effort.js'

/** What each contender's turns gave, by its name; turn n of one ran next to turn n of all others. */
export type Turns<Result> = ReadonlyMap<string, readonly Result[]>

export interface ContestOptions<Result> {
  /** Makes a fresh process ready to be measured. */
  readonly warmUp: (child: ContenderProcess) => Promise<unknown>
  readonly turn: (child: ContenderProcess) => Promise<Result>
}

/**
 * Measures contenders in alternating order (A B C, C B A, A B C …), each in its own process, which is idle while another is measured.
 * So other load on the machine affects all of them alike. Several generations of processes.
 */
export async function contest<Result>(
  contenders: readonly Contender[],
  effort: Effort,
  { warmUp, turn }: ContestOptions<Result>,
): Promise<Turns<Result>> {
  const turns = new Map<string, Result[]>(contenders.map(({ name }) => [name, []]))
  for (let generation = 0; generation < effort.generations; generation++) {
    const children: ContenderProcess[] = []
    try {
      for (const contender of contenders) {
        const child = new ContenderProcess(contender)
        children.push(child)
        await warmUp(child)
      }
      for (let round = 0; round < effort.rounds; round++) {
        const order = round % 2 === 0 ? children : children.toReversed()
        for (const child of order) turns.get(child.contender.name)!.push(await turn(child))
      }
    } finally {
      for (const child of children) await child.end()
    }
  }
  return turns
}
