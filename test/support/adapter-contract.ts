import { afterEach, beforeEach, describe } from '@jest/globals'
import { afterwardsContract } from './adapter-contract/afterwards.js'
import { answersContract } from './adapter-contract/answers.js'
import { chainsContract } from './adapter-contract/chains.js'
import { deferringContract } from './adapter-contract/deferring.js'
import { endsContract } from './adapter-contract/ends.js'
import { goneClientsContract } from './adapter-contract/gone-clients.js'
import { mistakesContract } from './adapter-contract/mistakes.js'
import { optionsContract } from './adapter-contract/options.js'
import { refusalsContract } from './adapter-contract/refusals.js'
import { sharingContract } from './adapter-contract/sharing.js'
import { whoContract } from './adapter-contract/who.js'
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
    whoContract(world)
    afterwardsContract(world)
    endsContract(world)
    goneClientsContract(world)
    refusalsContract(world)
    chainsContract(world)
    sharingContract(world)
    deferringContract(world)
    mistakesContract(world)
  })
}
