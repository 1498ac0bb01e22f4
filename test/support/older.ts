import { createRequire } from 'node:module'
import { join } from 'node:path'

/**
 * Whether older versions of clients and frameworks are tested too: `one` of each, or `all` of them. They are installed
 * beside test/versions, and `npm ci` does not install them.
 */
const OLDER = process.env.SPILLWAY_VERSIONS !== undefined

/** The module of an older version, by the name that test/versions/package.json gives it. */
export function olderModule<Module>(name: string): Module {
  return createRequire(join(process.cwd(), 'test/versions/package.json'))(name)
}

/** A row of a table of tests for an older version; none in `npm test`. */
export function older<Module, Row>(name: string, rowOf: (module: Module) => Row): Row[] {
  return OLDER ? [rowOf(olderModule(name))] : []
}
