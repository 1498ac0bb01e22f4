import { stormTests } from '../../test/support/storm.js'

stormTests({ connections: 200, durationMs: 3000, seed: 'a short storm', settlesAll: false })
