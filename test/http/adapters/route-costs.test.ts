import { describe, expect, test } from '@jest/globals'
import express, { type Express } from 'express'
import request from 'supertest'
import { rateLimit } from '../../../src/http/adapters/express.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { older } from '../../support/older.js'

describe.each<[string, () => Express]>([
  ...older('express4', (express4: () => Express): [string, () => Express] => ['Express 4', express4]),
  ['Express 5', express],
])('%s: limiters of routes, on one store', (_name, create) => {
  test('share one count, and a route costs the same however its path is written', async () => {
    const store = new MemoryStore()
    const costing = (cost: number) => rateLimit({ policy: '1000/1m', store, cost })
    const app = create()
    const left = (path: string) => request(app).get(path)
    app.get('/search', costing(1), (req, res) => void res.json(req.rateLimit?.remaining))
    app.get('/export', costing(50), (req, res) => void res.json(req.rateLimit?.remaining))
    const spent = []
    for (const path of ['/search', '/export', '/EXPORT', '/export/', '/Export/?a=1', '/Search']) {
      const { status, body } = await left(path)
      spent.push([path, status, 1000 - body])
    }
    expect(spent).toEqual([
      ['/search', 200, 1],
      ['/export', 200, 51],
      ['/EXPORT', 200, 101],
      ['/export/', 200, 151],
      ['/Export/?a=1', 200, 201],
      ['/Search', 200, 202],
    ])
  })
})
