/** How long to measure. */
export interface Effort {
  readonly name: 'full' | 'quick'
  /** Fresh processes for every contender: no luck of one process (heap layout, hash seed, JIT) decides. */
  readonly generations: number
  /** Turns of each contender in one generation. */
  readonly rounds: number
  /** What every time span is multiplied by. */
  readonly stretch: number
}

const FULL: Effort = { name: 'full', generations: 2, rounds: 5, stretch: 1 }
const QUICK: Effort = { name: 'quick', generations: 1, rounds: 3, stretch: 0.4 }

/** As the command line wants it: `--quick`, or else full. */
export function chosenEffort(): Effort {
  return process.argv.includes('--quick') ? QUICK : FULL
}
