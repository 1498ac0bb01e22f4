// Files, exports and dependencies that nothing uses: `npm run lint` looks for them. What knip cannot see for itself is
// named here, with the reason.
import { readFileSync } from 'node:fs'

const entries = Object.values(JSON.parse(readFileSync(new URL('scripts/entries.json', import.meta.url), 'utf8')))

/** @type {import('knip').KnipConfig} */
export default {
  entry: [
    // What users import, and their command.
    ...entries,
    'src/operating/cli/main.ts',
    // What runs in a browser: scripts/embed-page.mjs.
    'src/operating/**/page/main.tsx',
    // What somebody runs by its name.
    'examples/*.ts',
    'examples/nitro/**/*.{ts,mjs}',
    'scripts/*.{ts,mjs,cjs}',
    'bench/*.ts',
    'test/runtimes/{run,newer-node}.ts',
    'verification/{histories/run,mutants/mutate,soak/run}.ts',
    'bench/leases/table.ts',
    // What a test, a benchmark or a run starts as a process of its own.
    'bench/contenders/**/*.mjs',
    'test/runtimes/{cases/*,clients,program}.ts',
    'test/versions/bottleneck-hook.cjs',
    'test/support/witness.mjs',
    'test/support/{chat-worker,rate-worker,sql/audit-worker}.ts',
    'verification/faults/outage-program.ts',
    'verification/{histories/{program,peer-program,load-program},soak/service}.ts',
    'verification/storms/services.ts',
    // What only the compiler reads.
    'test/{redis,versions}/client-types.ts',
    'test/replacing/express-rate-limit/types.ts',
    // Its user is generated, and not committed: src/redis/scripts.ts.
    'src/redis/packed-texts.ts',
  ],
  project: ['{src,test,verification,bench,examples,scripts}/**/*.{ts,tsx,mjs,cjs}'],
  ignoreDependencies: [
    // Commands that scripts/check-package.mjs starts.
    '@arethetypeswrong/cli',
    'publint',
    // Older versions, which have a lock file of their own, under other names: test/versions.
    ...Object.entries(
      JSON.parse(readFileSync(new URL('test/versions/package.json', import.meta.url), 'utf8')).dependencies,
    ).flatMap(([name, version]) => (version.startsWith('npm:') ? [name] : [])),
    // They stand beside older versions: test/versions/sdks.test.ts.
    'openai',
    '@anthropic-ai/sdk',
    // Its script goes into a page: test/support/browser.ts.
    'axe-core',
    // A program in a text imports them: test/versions/octokit.test.ts.
    '@octokit/core',
    '@octokit/plugin-throttling',
    // The benchmarks have a lock file of their own.
    'autocannon',
    // Types that come with jest.
    '@jest/environment',
    '@jest/reporters',
  ],
  // Programs of the machine, which scripts/ensure.mjs installs.
  ignoreBinaries: ['redis-server', 'prometheus', 'promtool', 'ipcrm', 'luacheck'],
  ignoreIssues: {
    // Every adapter has a default export beside the name of the other entry points.
    'src/http/adapters/*.ts': ['duplicates'],
  },
}
