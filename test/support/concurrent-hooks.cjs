/**
 * Whether a hook was made by Jest itself, which resets mocks in one.
 * @param {Error} madeAt
 */
function isOfJest({ stack = '' }) {
  return stack.split('\n')[1]?.includes('/jest-circus/') === true
}

/**
 * Jest runs no `beforeEach` or `afterEach` for a concurrent test, and does not say so: what the hook prepares, checks
 * or takes away would be missing. Throws if one stands beside such a test, in its file or its describe blocks.
 * @typedef {{ type: string, asyncError: Error }} Hook
 * @typedef {{ type: 'describeBlock', hooks: readonly Hook[], children: readonly Child[] }} Block
 * @typedef {Block | { type: 'test', name: string, concurrent: boolean }} Child
 * @param {Block} block
 * @param {readonly string[]} hooksAround
 */
function refuseHooksBesideConcurrent({ hooks, children }, hooksAround = []) {
  const own = hooks.filter(({ type, asyncError }) => type.endsWith('Each') && !isOfJest(asyncError))
  const all = [...hooksAround, ...own.map(({ type }) => type)]
  for (const child of children) {
    if (child.type === 'describeBlock') refuseHooksBesideConcurrent(child, all)
    else if (child.concurrent && all.length > 0) {
      throw new Error(`test.concurrent('${child.name}') would run without the ${all[0]} around it`)
    }
  }
}

module.exports = { refuseHooksBesideConcurrent }
