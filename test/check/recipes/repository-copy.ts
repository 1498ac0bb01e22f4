import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { root } from '../files.js'

interface Ran {
  readonly stdout: string
  readonly stderr: string
}

interface JestResult {
  readonly numFailedTests: number
  readonly testResults: readonly { readonly assertionResults: readonly { readonly status: string }[] }[]
}

/** A copy of the repository, in which a recipe of docs/architecture.md is carried out and then thrown away. */
export class RepositoryCopy {
  readonly #folder = mkdtempSync(join(tmpdir(), 'spillway-recipe-'))

  constructor() {
    for (const part of ['src', 'lua', 'test', 'bench', 'scripts', 'jest.config.js', 'tsconfig.json', 'package.json']) {
      cpSync(join(root, part), join(this.#folder, part), { recursive: true })
    }
    symlinkSync(join(root, 'node_modules'), join(this.#folder, 'node_modules'))
  }

  run(...args: string[]): Ran {
    return spawnSync(process.execPath, args, { cwd: this.#folder, encoding: 'utf8' })
  }

  /** Adds text after the place that `after` matches. Throws if nothing matches. */
  insert(file: string, after: RegExp, text: string): void {
    const path = join(this.#folder, file)
    const before = readFileSync(path, 'utf8')
    const changed = before.replace(after, text)
    if (changed === before) throw new Error(`${file}: nothing matches ${after}`)
    writeFileSync(path, changed)
  }

  write(file: string, text: string): void {
    const path = join(this.#folder, file)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text.trimStart())
  }

  /** The compiler's messages about these folders; '' if they compile. */
  compilerErrors(rooms: readonly string[]): string {
    const options = {
      extends: './tsconfig.json',
      include: rooms,
      exclude: ['test/support/storm', 'test/support/leases/*.mjs', 'src/**/page'],
    }
    writeFileSync(join(this.#folder, 'tsconfig.copy.json'), JSON.stringify(options))
    return this.run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.copy.json').stdout
  }

  /** Runs test files there. Gives how many tests passed in each; throws with the words of jest if one failed. */
  passedTests(suites: readonly string[], title: string): number[] {
    const args = ['--selectProjects', 'test', '-t', title, '--json', '--outputFile', 'result.json']
    const { stderr } = this.run('node_modules/jest/bin/jest.js', ...suites, ...args, '--reporters', 'default')
    const result: JestResult = JSON.parse(readFileSync(join(this.#folder, 'result.json'), 'utf8'))
    if (result.numFailedTests > 0 || stderr.includes('●')) throw new Error(stderr)
    return result.testResults.map(suite => suite.assertionResults.filter(({ status }) => status === 'passed').length)
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true })
  }
}
