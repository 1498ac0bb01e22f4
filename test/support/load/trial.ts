import { setTimeout as pause } from 'node:timers/promises'
import { epochMs, type Load, type Place, type Report, type Scene } from '../load.js'
import type { ClientKind } from './scene.js'

export interface Outcome {
  readonly scene: Scene
  readonly reports: readonly Report[]
  /** How long after the end of the fault each client had its answers from Redis again, ms. */
  readonly back: Readonly<Record<ClientKind, number>>
}

/** Every 50 ms each of 25 keys is asked for some 60 times, by all processes together, and half of it fits. */
export function sceneAt(place: Place, change: Partial<Scene> = {}): Scene {
  return { place, quota: 30, share: 10, deadlineMs: 50, inFlight: 200, keys: 25, ...change }
}

/** Puts the load on a scene, works a fault on it, waits until it is over for everybody, and takes the load off. */
export async function endure(load: Load, scene: Scene, fault: () => Promise<void>): Promise<Outcome> {
  await load.begin(scene)
  await pause(250)
  await fault()
  const endedAt = epochMs()
  // What is in flight now may still fail.
  await pause(1.5 * scene.deadlineMs)
  const back = await load.back(endedAt)
  await pause(100)
  const reports = await load.end()
  if (process.env.SPILLWAY_FIGURES) process.stdout.write(`${figures(back, reports).join('\n')}\n`)
  return { scene, reports, back }
}

function figures(back: Outcome['back'], reports: readonly Report[]): string[] {
  return reports.map(({ client, decisions, degraded, slowestMs, slowestRawMs, opened, closed, errors }) =>
    [
      `    ${client}: ${decisions} decisions, ${degraded} degraded, slowest ${slowestMs.toFixed(1)} ms (${slowestRawMs.toFixed(1)})`,
      `back after ${back[client].toFixed(0)} ms, breaker opened ${opened} closed ${closed}`,
      ...errors.map(text => text.slice(0, 150)),
    ].join('; '),
  )
}
