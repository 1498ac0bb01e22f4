// Writes lua/pinned.txt: the hash of each script, which test/check/lua.test.ts compares. So a change of a library shows
// which scripts change, and that no others do. Run `node --import tsx scripts/pin-lua.ts` after `npm run embed`.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LuaScript } from '../src/redis/script.js'
import * as embedded from '../src/redis/scripts.js'

const scripts = Object.values(embedded).flatMap(value => (value instanceof LuaScript ? [value] : Object.values(value)))
const lines = scripts.map(({ name, sha1 }) => `${name} ${sha1}\n`).sort()
writeFileSync(join(fileURLToPath(import.meta.url), '../../lua/pinned.txt'), lines.join(''))
