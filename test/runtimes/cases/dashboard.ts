import assert from 'node:assert/strict'
import { Redis } from 'ioredis'
import { dashboard } from 'spillway/dashboard'
import type { Case } from '../case.js'

export const dashboardCases: Case[] = [{ name: 'the dashboard, as a handler of fetch', run: serves }]

async function serves(): Promise<string> {
  const client = new Redis(String(process.env.REDIS_URL))
  const limits = dashboard({ client, authorize: (request: Request) => request.headers.has('x-admin') && 'read' })
  const ask = (path: string, headers: Record<string, string> = {}) =>
    limits(new Request(`http://localhost/limits/${path}`, { headers }))
  try {
    assert.equal((await ask('')).status, 403)
    assert.match(await (await ask('', { 'x-admin': 'yes' })).text(), /id="app"/)
    const asked = Buffer.from(JSON.stringify({ page: 'limits' })).toString('base64url')
    const view = await ask('view', { 'x-admin': 'yes', 'x-spillway-request': asked })
    assert.equal(((await view.json()) as { page: string }).page, 'limits')
    return 'page and data'
  } finally {
    client.disconnect()
  }
}
