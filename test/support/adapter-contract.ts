import { afterEach, beforeEach, describe } from '@jest/globals'
import { answersContract } from './adapter-contract/answers.js'
import { chainsContract } from './adapter-contract/chains.js'
import { optionsContract } from './adapter-contract/options.js'
import { type Adapter, World } from './adapter-contract/world.js'

export type { Adapter } from './adapter-contract/world.js'

/** What every adapter does, over real HTTP. */
export function adapterContract(name: string, adapter: Adapter): void {
  describe(name, () => {
    const world = new World(name, adapter)
    beforeEach(() => world.open())
    afterEach(() => world.close())
    answersContract(world)
    optionsContract(world)
    chainsContract(world)
  })
}
