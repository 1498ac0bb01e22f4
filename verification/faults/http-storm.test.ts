import { stormTests } from '../../test/support/storm.js'

stormTests({ connections: 2000, durationMs: 30_000, seed: 'a long storm', settlesAll: true })
