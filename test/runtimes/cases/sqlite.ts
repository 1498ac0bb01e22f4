import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PolicyError } from 'spillway'
import { SqliteStore } from 'spillway/sqlite'
import type { Case } from '../case.js'
import { freshName } from '../clients.js'
import { shareQuota, tell } from './exact.js'

/** The runtime's own library, if it has one. */
const library = ['node:sqlite', 'bun:sqlite'].find(name => process.getBuiltinModule?.(name) !== undefined)

export const sqlite: Case[] = [
  {
    name: 'exact on SQLite',
    run: async () => {
      const path = join(tmpdir(), `spillway-${process.pid}-${Date.now()}.db`)
      if (library === undefined) {
        assert.throws(() => new SqliteStore(path), PolicyError)
        return 'better-sqlite3'
      }
      try {
        await tell(clock => new SqliteStore(path, { clock, prefix: freshName() }))
        const stores = [new SqliteStore(path), new SqliteStore(path)]
        await shareQuota(stores)
        await Promise.all(stores.map(store => store.close()))
      } finally {
        for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true })
      }
      return library
    },
  },
]
