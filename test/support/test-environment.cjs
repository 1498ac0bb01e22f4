// Jest runs each test file in a context of its own and loads all modules anew. This environment saves two costs of
// that: to compile them again, and a storage that outlives its file. A test file loads in two thirds of the time.
// It also refuses hooks that Jest would leave out.
const { AsyncLocalStorage } = require('node:async_hooks')
const vm = require('node:vm')
const { TestEnvironment } = require('jest-environment-node')
const { refuseHooksBesideConcurrent } = require('./concurrent-hooks.cjs')

const { compileFunction } = vm

/**
 * The compiled modules of all files that ran before in this process. Jest compiles a module for each context that loads
 * it, but a `vm.Script` is compiled once and runs in any context.
 * @type {Map<string, { source: string, script: vm.Script }>}
 */
const compiled = new Map()

vm.compileFunction = (source, params = [], options = {}) => {
  const { filename, parsingContext } = options
  if (!filename || !parsingContext) return compileFunction(source, params, options)
  const key = `${params}\n${filename}`
  let known = compiled.get(key)
  if (known?.source !== source) {
    // A dynamic import needs the callback in the options, which belongs to one context.
    if (/\bimport\s*\(/.test(source)) return compileFunction(source, params, options)
    const head = `(function (${params}) {`
    known = { source, script: new vm.Script(`${head}${source}\n})`, { filename, columnOffset: -head.length }) }
    compiled.set(key, known)
  }
  return known.script.runInContext(parsingContext)
}

/** @type {Set<AsyncLocalStorage<unknown>>} */
const storages = new Set()
const { run, enterWith } = AsyncLocalStorage.prototype

/** @this {AsyncLocalStorage<unknown>} @param {[unknown, () => unknown]} args */
AsyncLocalStorage.prototype.run = function (...args) {
  storages.add(this)
  return run.apply(this, args)
}

/** @this {AsyncLocalStorage<unknown>} @param {unknown} store */
AsyncLocalStorage.prototype.enterWith = function (store) {
  storages.add(this)
  enterWith.call(this, store)
}

module.exports = class extends TestEnvironment {
  /**
   * @param {import('@jest/environment').JestEnvironmentConfig} config
   * @param {import('@jest/environment').EnvironmentContext} context
   */
  constructor(config, context) {
    super(config, context)
    // What ran is counted for each context, by the places of a source that stands alone.
    if (config.globalConfig.collectCoverage) vm.compileFunction = compileFunction
  }

  /**
   * @param {{ name: string }} event
   * @param {{ rootDescribeBlock: Parameters<typeof refuseHooksBesideConcurrent>[0] }} state
   */
  handleTestEvent({ name }, { rootDescribeBlock }) {
    if (name === 'run_start') refuseHooksBesideConcurrent(rootDescribeBlock)
  }

  /** @override */
  async teardown() {
    await super.teardown()
    // Jest runs tests inside an AsyncLocalStorage of each file. One that is not disabled slows every promise of all
    // later files.
    for (const storage of storages) storage.disable()
    storages.clear()
  }
}
