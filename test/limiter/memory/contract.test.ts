import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { describeStore } from '../../support/store-contract.js'

describeStore('MemoryStore', { make: clock => new MemoryStore({ clock }), whole: true })
