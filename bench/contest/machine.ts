import { spawnSync } from 'node:child_process'
import { cpus, release, totalmem, type } from 'node:os'
import { redisBinary } from '../../test/support/redis-process.js'

/** What the numbers were measured on, in one line. */
export function machine(): string {
  const cores = cpus()
  const version = spawnSync(redisBinary(), ['--version'], { encoding: 'utf8' }).stdout.match(/v=(\S+)/)?.[1]
  const memory = `${Math.round(totalmem() / 2 ** 30)} GB`
  return `${cores.length} cores (${cores[0].model.trim()}), ${memory}, ${type()} ${release()}, Node ${process.versions.node}, Redis ${version}`
}
