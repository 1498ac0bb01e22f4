const { relative } = require('node:path')
const { default: Sequencer } = require('@jest/test-sequencer')
/** @type {Readonly<Record<string, number>>} */
const SLOW_MS = require('./slow-files.json')

/** @param {import('@jest/test-result').Test} test */
const usualMs = ({ path, context }) => SLOW_MS[relative(context.config.rootDir, path).replaceAll('\\', '/')] ?? 0

/**
 * Long files first, so that no worker is left with a long one at the end. Jest remembers how long a file took in the last run and sorts by
 * size what it does not remember; but our slowest files are short, because they run a contract. `slow-files.json` names them for a fresh clone.
 */
class LongFilesFirst extends Sequencer {
  /**
   * @override
   * @param {import('@jest/test-result').Test[]} tests
   */
  async sort(tests) {
    const sorted = await super.sort(tests)
    const unknown = sorted.filter(({ duration }) => duration === undefined)
    const known = sorted.filter(({ duration }) => duration !== undefined)
    return [...unknown.sort((a, b) => usualMs(b) - usualMs(a)), ...known]
  }
}

module.exports = LongFilesFirst
