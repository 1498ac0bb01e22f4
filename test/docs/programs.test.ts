import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, test } from '@jest/globals'
import { transformSync } from '@swc/core'
import { root } from '../support/files.js'
import { SNIPPETS } from './pages.js'

// The programs of the README listen on port 3000, which somebody else may have.
const PRELOAD = `
  import { Server } from 'node:net'
  const { listen } = Server.prototype
  Server.prototype.listen = function () {
    return listen.call(this, 0, '127.0.0.1', () => console.log(this.address().port))
  }`
const WITH_ANY_PORT = `data:text/javascript,${encodeURIComponent(PRELOAD)}`

const commonJs = (code: string) =>
  transformSync(code, { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' }, module: { type: 'commonjs' } })
    .code

/** Some frameworks print more than what we have added. */
async function portOf(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) if (/^\d+$/.test(line)) return line
  throw new Error('the program ended without listening')
}

const programs = SNIPPETS.filter(({ code }) => /\.listen\(3000\)|port: 3000\b/.test(code))

describe.each(programs.map(({ page, line, code }) => [page, line, code] as const))(
  'the program in %s, line %i',
  (_, __, code) => {
    let child: ChildProcess | undefined
    afterEach(async () => {
      child?.kill()
      if (child?.exitCode === null && child.signalCode === null) await once(child, 'close')
      child = undefined
    })

    test.each([
      ['an ES module', 'module', code],
      ['CommonJS', 'commonjs', commonJs(code)],
    ])('limits as %s', async (_, type, program) => {
      child = spawn(process.execPath, ['--import', WITH_ANY_PORT, `--input-type=${type}`, '--eval', program], {
        cwd: root,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const port = await portOf(child)
      const answers = await Promise.all(Array.from({ length: 101 }, () => fetch(`http://127.0.0.1:${port}/`)))
      const statuses = answers.map(({ status }) => status)
      expect(statuses.filter(status => status === 200)).toHaveLength(100)
      expect(statuses.filter(status => status === 429)).toHaveLength(1)
      const bodies = await Promise.all(answers.map(answer => answer.text()))
      expect(bodies).toContain('0 left')
      expect(bodies).toContain('99 left')
    })
  },
)
