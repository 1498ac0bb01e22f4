import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'

/**
 * How many processors this process may use: those of the machine, or fewer if a container or a service has a quota (cgroup version 1 or 2, in its own
 * group or in one above it). May be a fraction. `root` stands for / in tests.
 */
export function containerCpus(root = '/', machine = availableParallelism()): number {
  let least = machine
  for (const line of (textOf(join(root, 'proc/self/cgroup')) ?? '').split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (path === undefined) continue
    if (controllers === '') least = Math.min(least, quotaOf(join(root, 'sys/fs/cgroup'), path, version2))
    else if (controllers.split(',').includes('cpu')) {
      least = Math.min(least, quotaOf(join(root, 'sys/fs/cgroup/cpu'), path, version1))
    }
  }
  return least
}

/** The smallest quota of a group and those above it. In a container the group named in /proc may be mounted as the root. */
function quotaOf(mount: string, path: string, read: (folder: string) => number): number {
  let least = read(mount)
  for (let group = path; group !== '/'; group = dirname(group)) least = Math.min(least, read(join(mount, group)))
  return least
}

/** cpu.max: "quota period" in µs, or "max period". */
function version2(folder: string): number {
  const [quota, period] = (textOf(join(folder, 'cpu.max')) ?? '').trim().split(' ').map(Number)
  return cpusOf(quota, period)
}

/** cpu.cfs_quota_us is -1 without a quota. */
function version1(folder: string): number {
  return cpusOf(
    Number(textOf(join(folder, 'cpu.cfs_quota_us')) ?? Number.NaN),
    Number(textOf(join(folder, 'cpu.cfs_period_us')) ?? Number.NaN),
  )
}

function cpusOf(quota: number, period: number): number {
  return quota > 0 && period > 0 ? quota / period : Number.POSITIVE_INFINITY
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
