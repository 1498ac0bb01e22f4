import assert from 'node:assert/strict'
import type { Case } from '../case.js'

/** Set where the program is bundled. */
declare const LOADED_BY: 'import' | 'require'

/** What needs nothing beside it. */
const ENTRIES = [
  'adaptive',
  'alerts',
  'dashboard',
  'express',
  'express-rate-limit',
  'fastify',
  'fetch',
  'h3',
  'hono',
  'koa',
  'koa-ratelimit',
  'live',
  'mcp',
  'node',
  'outgoing',
  'rate-limiter-flexible',
  'testing',
  'ws',
]

export const entries: Case[] = [
  {
    name: 'entry points',
    run: async () => {
      const load = async (name: string): Promise<object> => (LOADED_BY === 'require' ? require(name) : import(name))
      for (const name of ['spillway', ...ENTRIES.map(entry => `spillway/${entry}`)]) {
        assert.ok(Object.keys(await load(name)).length > 0, name)
      }
      return `${ENTRIES.length + 1} loaded by ${LOADED_BY}`
    },
  },
]
