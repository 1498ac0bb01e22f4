import type { Redis } from 'ioredis'

/** What a Redis server has done since it was started. */
export interface RedisWork {
  /** Time of its processor, µs. */
  readonly cpuUs: number
  readonly bytes: number
  /** Commands, those within scripts included. */
  readonly commands: number
  /** Calls of one command by its name, in lower case. */
  readonly calls: (command: string) => number
  /** Time within those calls, µs. */
  readonly micros: (command: string) => number
}

export async function readWork(client: Redis): Promise<RedisWork> {
  const info = `${await client.info('cpu')}\n${await client.info('commandstats')}\n${await client.info('stats')}`
  const number = (pattern: RegExp) => Number(info.match(pattern)?.[1] ?? 0)
  const field = (name: string) => number(new RegExp(`^${name}:([\\d.]+)`, 'm'))
  return {
    cpuUs: (field('used_cpu_user') + field('used_cpu_sys')) * 1e6,
    bytes: field('total_net_input_bytes') + field('total_net_output_bytes'),
    commands: field('total_commands_processed'),
    calls: command => number(new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm')),
    micros: command => number(new RegExp(`^cmdstat_${command}:calls=\\d+,usec=(\\d+)`, 'm')),
  }
}
