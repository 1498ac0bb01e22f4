// Names this run for all workers, who share a PostgreSQL: test/support/test-postgres.ts.
process.env.SPILLWAY_RUN ??= `${process.pid}-${Date.now()}`

const shared = {
  testEnvironment: '<rootDir>/test/support/test-environment.cjs',
  // A MemoryStore that nobody closed looks at the clock once more after its file has ended. Jest would warn of that.
  testEnvironmentOptions: { globalsCleanup: 'off' },
  // A global is looked up in the sandbox of the file that is tested, slowly, unless its modules get it as an argument:
  // our arithmetic would take three times as long. Left out is what some module declares itself, or what a test
  // replaces.
  sandboxInjectedGlobals:
    'Array Boolean Error Infinity JSON Map Math Number Object Promise RangeError Reflect RegExp Set String Symbol TypeError WeakMap'.split(
      ' ',
    ),
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript', decorators: true },
          target: 'es2022',
          transform: { legacyDecorator: true },
        },
      },
    ],
    '/(@nestjs|h3|rou3|srvx|wasmoon-lua5.1)/.+\\.m?js$': [
      '@swc/jest',
      { jsc: { target: 'es2022' }, module: { type: 'commonjs' } },
    ],
  },
  // NestJS 12 and h3 have ES modules only, and Lua imports one: Jest can require none of them.
  transformIgnorePatterns: ['/node_modules/(?!@nestjs/|(h3|rou3|srvx|wasmoon-lua5.1)/)'],
  // NestJS 11 stands beside it under other names.
  resolver: '<rootDir>/test/support/nest-resolver.cjs',
  // Sources are imported as they will be called when they are built.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
}

/** What opens pages in a real browser. */
const BROWSER = ['/test/browser/']

/** The contracts of clients, over the newest version of each. */
const CLIENTS = ['/test/redis/clients/']

/** The contracts once more, for the versions of clients and frameworks before the newest. */
const VERSIONS = ['/test/versions/']

/** What keeps all processors busy for seconds. */
const STORMS = ['/verification/storms/']

/** What breaks servers on purpose and measures how long it took. */
const FAULTS = ['/verification/faults/']

/** What needs SQLite, which Node has from 22.13 on: `npm run verify -- sqlite` runs them on such a Node. */
const SQLITE = ['/test/sql/sqlite/']

/** What the documents and the examples say, and the package as it is built. */
const DOCUMENTS = ['/test/check/', '/test/docs/', '/test/package/']

export default {
  // For `npm run verify -- coverage`. What runs in processes of its own (the command line, the page, examples) does not
  // count.
  coverageProvider: 'v8',
  collectCoverageFrom: ['src/**/*.ts', '!src/redis/scripts.ts', '!src/operating/dashboard/page-files.ts'],
  coverageReporters: ['text-summary', 'html', 'json'],
  // The floor: what was measured last, rounded down. `npm run verify -- coverage` fails below it.
  coverageThreshold: { global: { statements: 93, branches: 95, functions: 95, lines: 93 } },
  reporters: ['default', '<rootDir>/scripts/tally-reporter.mjs'],
  // Tests wait for Redis or for a timer nearly half of the time: four workers keep two cores busy.
  maxWorkers: 4,
  // What a file leaves on the heap makes those after it slow: a worker that holds too much is replaced by a new one.
  workerIdleMemoryLimit: '600MB',
  // Ends what hangs. What has to be quick is measured by the test itself: a busy machine is no failure.
  testTimeout: 20_000,
  projects: [
    {
      ...shared,
      displayName: 'test',
      testMatch: ['<rootDir>/{test,verification}/**/*.test.ts'],
      testPathIgnorePatterns: [
        '/node_modules/',
        ...DOCUMENTS,
        ...BROWSER,
        ...FAULTS,
        ...STORMS,
        ...CLIENTS,
        ...VERSIONS,
        ...SQLITE,
      ],
    },
    // In a run of its own: two versions of GLIDE in one process mix up their messages.
    { ...shared, displayName: 'clients', testMatch: CLIENTS.map(path => `<rootDir>${path}**/*.test.ts`) },
    { ...shared, displayName: 'versions', testMatch: VERSIONS.map(path => `<rootDir>${path}**/*.test.ts`) },
    { ...shared, displayName: 'storms', testMatch: STORMS.map(path => `<rootDir>${path}**/*.test.ts`) },
    // By the clock on the wall, with several processes: for a machine that does nothing else.
    { ...shared, displayName: 'faults', testMatch: FAULTS.map(path => `<rootDir>${path}**/*.test.ts`) },
    { ...shared, displayName: 'sqlite', testMatch: SQLITE.map(path => `<rootDir>${path}**/*.test.ts`) },
    { ...shared, displayName: 'browser', testMatch: BROWSER.map(path => `<rootDir>${path}**/*.test.ts`) },
    { ...shared, displayName: 'check', testMatch: DOCUMENTS.map(path => `<rootDir>${path}**/*.test.ts`) },
  ],
}
