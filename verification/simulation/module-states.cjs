// What the modules of src/ keep for all of a process. Simulated processes share one real process, so each of these is
// either given to every simulated process anew, or shared by all for a reason.
const ts = require('typescript')

/** Each simulated process has one of its own, with its first value. */
const OWN = 'own'
/** Keeps what belongs to an object, and no two processes hold the same object. */
const BY_OBJECT = 'by object'
/** Never changed. */
const CONSTANT = 'constant'
/** The result of a function of its key alone, which is the same in every process. */
const COMPUTED = 'computed'

/** @type {Readonly<Record<string, Readonly<Record<string, string>>>>} */
const STATES = {
  'leases/leased-key.ts': { leases: OWN },
  'leases/leases.ts': { books: OWN },
  'limiter/algorithms/buckets.ts': { tokenBucket: CONSTANT, leakyBucket: CONSTANT },
  'limiter/breaker.ts': { BREAKERS: BY_OBJECT },
  'limiter/core/async-dispose.ts': { asyncDispose: CONSTANT },
  'limiter/core/calendar.ts': { 'Calendar.#known': COMPUTED, 'Calendar.#ofRules': BY_OBJECT, 'Zone.#known': COMPUTED },
  // Read from Node once; nobody subscribes in the simulation.
  'limiter/core/channels.ts': { diagnostics: CONSTANT, DECIDED: CONSTANT },
  // Modules of Node, of which the simulation replaces what depends on time.
  'limiter/core/clock.ts': { setImmediate: CONSTANT },
  'limiter/core/duration.ts': { NAMED_DURATIONS: CONSTANT },
  'limiter/core/limit.ts': { OPTION_NAMES: CONSTANT },
  'limiter/core/meters.ts': { METERS: BY_OBJECT, HOLDS: BY_OBJECT, NO_METERS: CONSTANT },
  'limiter/core/observer.ts': { CHANNELS: CONSTANT },
  'limiter/core/short-key.ts': {
    PRIMES: CONSTANT,
    START: CONSTANT,
    ROUNDS: CONSTANT,
    nodeCrypto: CONSTANT,
    pool: OWN,
    used: OWN,
    id: OWN,
  },
  'limiter/core/wait.ts': { LISTENERS: BY_OBJECT, OURS: BY_OBJECT },
  'limiter/core/warnings.ts': { OUTAGES: BY_OBJECT },
  'limiter/count-name.ts': { TEXTS: COMPUTED },
  'limiter/deny-cache.ts': { CACHES: BY_OBJECT },
  'limiter/fallback.ts': { LOCAL: BY_OBJECT },
  'limiter/foreign-store.ts': { ADAPTED: BY_OBJECT },
  'limiter/guarded.ts': { REFUSED: CONSTANT },
  'limiter/options.ts': { warnedOfShortWindow: OWN },
  'limiter/port.ts': { KNOWN: BY_OBJECT },
  // Ways into the class, set once when it is defined.
  'limiter/rate-limiter.ts': { optionsOf: CONSTANT, standing: CONSTANT, change: CONSTANT, strike: CONSTANT },
  'limiter/settlement.ts': { KEEPING: BY_OBJECT },
  'operating/live/live-limit.ts': { KNOWN: COMPUTED },
  'operating/object-index.ts': { INDICES: BY_OBJECT },
  'redis/clients.ts': { PORTS: BY_OBJECT },
  // A deadline has a timer: one for each process.
  'redis/commands.ts': { PATIENCE: OWN, CLOSING: OWN },
  'redis/ioredis.ts': { STARTING: CONSTANT },
  'redis/keys.ts': { TABLE: CONSTANT, TAGS: COMPUTED },
  'redis/redis-place.ts': { PLACES: BY_OBJECT },
  'redis/subscriber.ts': { SUBSCRIBERS: BY_OBJECT },
  'redis/store/redis-counts.ts': { MET: BY_OBJECT },
  'redis/timely-scripts.ts': { SCRIPTS: BY_OBJECT },
  'redis/upstash.ts': { REQUESTS: BY_OBJECT },
  'waiting/line/line-membership.ts': { openings: OWN },
  'waiting/line/mailbox.ts': { boxes: OWN, CHANNELS: BY_OBJECT },
  'waiting/queue/fetcher.ts': { FETCHERS: BY_OBJECT },
  'waiting/semaphore/renewals.ts': { KEEPERS: BY_OBJECT },
  'waiting/semaphore/takes.ts': { LOSSES: BY_OBJECT },
}

/** Calls that make nothing which could change. */
const MAKES_CONSTANTS = new Set(['Symbol', 'Symbol.for', 'Object.freeze', 'Object.keys', 'Date.UTC'])

/**
 * The states of a module: variables, and constants and static members that hold anything made by `new`, by a call, or
 * an empty list or object to be filled.
 * @param {string} source
 * @returns {Array<{ name: string, first: string, at: number, isConst: boolean }>} `first`: the text of its first value.
 *   `at`: where its declaration begins.
 */
function statesOf(source) {
  const file = ts.createSourceFile('module.ts', source, ts.ScriptTarget.Latest, true)
  return file.statements.flatMap(statement => {
    if (ts.isVariableStatement(statement)) return variablesOf(statement, file)
    if (ts.isClassDeclaration(statement)) return staticsOf(statement, file)
    return []
  })
}

/** @param {import('typescript').BindingName} name @returns {string[]} */
function namesIn(name) {
  if (ts.isIdentifier(name)) return [name.text]
  return name.elements.flatMap(one => (ts.isBindingElement(one) ? namesIn(one.name) : []))
}

/** @param {import('typescript').VariableStatement} statement @param {import('typescript').SourceFile} file */
function variablesOf({ declarationList, modifiers }, file) {
  if (modifiers?.some(({ kind }) => kind === ts.SyntaxKind.DeclareKeyword)) return []
  const isConst = (declarationList.flags & ts.NodeFlags.Const) !== 0
  return declarationList.declarations
    .filter(({ initializer }) => !isConst || (initializer !== undefined && holdsState(initializer)))
    .map(({ name, initializer }) => ({
      name: namesIn(name).join(', '),
      first: initializer?.getText(file) ?? 'undefined',
      at: declarationList.getStart(file),
      isConst,
    }))
}

/** @param {import('typescript').ClassDeclaration} statement @param {import('typescript').SourceFile} file */
function staticsOf({ name: className, members }, file) {
  return members.filter(ts.isPropertyDeclaration).flatMap(({ name, initializer, modifiers }) => {
    const has = (/** @type {import('typescript').SyntaxKind} */ kind) => modifiers?.some(one => one.kind === kind)
    if (!has(ts.SyntaxKind.StaticKeyword)) return []
    const isConst = has(ts.SyntaxKind.ReadonlyKeyword) === true
    if (isConst && (initializer === undefined || !holdsState(initializer))) return []
    const text = initializer?.getText(file) ?? 'undefined'
    return [{ name: `${className?.text}.${name.getText(file)}`, first: text, at: name.getStart(file), isConst }]
  })
}

/** @param {import('typescript').Node} node @returns {boolean} */
function holdsState(node) {
  if (ts.isFunctionLike(node) || ts.isClassLike(node) || ts.isTypeNode(node)) return false
  if (ts.isNewExpression(node)) return true
  if (ts.isCallExpression(node) && !MAKES_CONSTANTS.has(node.expression.getText())) return true
  if (ts.isCallExpression(node)) return node.arguments.some(one => isFilled(one) && holdsState(one))
  if (ts.isArrayLiteralExpression(node) && node.elements.length === 0) return true
  if (ts.isObjectLiteralExpression(node) && node.properties.length === 0) return true
  return ts.forEachChild(node, child => holdsState(child) || undefined) === true
}

/** Not an empty list or object: that one may be frozen. @param {import('typescript').Node} node */
const isFilled = node => !/^(\[\]|\{\})$/.test(node.getText())

/**
 * The module with a way to read and set those of its states of which every process has its own.
 * @param {string} path Within src/.
 * @param {string} source
 * @param {Readonly<Record<string, string>>} listed
 */
function withOwnStates(path, source, listed = STATES[path] ?? {}) {
  const states = statesOf(source)
  const unlisted = states.filter(({ name }) => listed[name] === undefined).map(({ name }) => name)
  const gone = Object.keys(listed).filter(name => !states.some(state => state.name === name))
  if (unlisted.length > 0 || gone.length > 0) {
    throw new Error(
      `src/${path} keeps ${unlisted.join(', ') || 'nothing new'} for all of a process, and no longer ` +
        `${gone.join(', ') || 'nothing'}: say in module-states.cjs what every simulated process has of its own`,
    )
  }
  let text = source
  const own = states.filter(({ name }) => listed[name] === OWN)
  for (const { name, at, isConst } of [...own].reverse()) {
    if (name.includes('.')) throw new Error(`src/${path}: ${name} is a static member: make it a variable of the module`)
    if (isConst) text = `${text.slice(0, at)}let${text.slice(at + 'const'.length)}`
  }
  const ways = own.map(
    ({ name, first }) =>
      `\n;(globalThis.moduleStates ??= []).push({ first: () => (${first}), get: () => ${name}, set: value => { ${name} = value } })`,
  )
  return text + ways.join('')
}

/** The modules whose states are listed. */
const listedModules = () => Object.keys(STATES)

module.exports = { listedModules, statesOf, withOwnStates }
