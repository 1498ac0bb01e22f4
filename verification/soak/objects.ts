import { readFileSync } from 'node:fs'

interface Snapshot {
  readonly snapshot: {
    readonly meta: { readonly node_fields: readonly string[]; readonly node_types: readonly [readonly string[]] }
  }
  readonly nodes: readonly number[]
  readonly strings: readonly string[]
}

/**
 * What the engine keeps of the code that it compiles, not of what the program holds: on a busy machine it grows for an
 * hour, more and more slowly.
 */
const OF_CODE = new Set(['code', 'object shape'])
/** The compiled functions that are to be thrown away when a shape changes. */
const DEPENDENT_CODE = 'system / WeakArrayList'

/** Bytes of all objects that a program could still reach when V8 wrote this snapshot of its heap, without code. */
export function objectBytes(path: string): number {
  const { snapshot, nodes, strings } = JSON.parse(readFileSync(path, 'utf8')) as Snapshot
  const { node_fields: fields, node_types: types } = snapshot.meta
  const [type, name, size] = ['type', 'name', 'self_size'].map(field => fields.indexOf(field))
  let bytes = 0
  for (let at = 0; at < nodes.length; at += fields.length) {
    if (OF_CODE.has(types[0][nodes[at + type]]) || strings[nodes[at + name]] === DEPENDENT_CODE) continue
    bytes += nodes[at + size]
  }
  return bytes
}
