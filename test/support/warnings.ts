import { afterEach, beforeEach, jest } from '@jest/globals'

/** The process warnings of a test. */
export class Warnings {
  readonly #calls: Array<[text: string, options: NodeJS.EmitWarningOptions]> = []

  add(text: string, options: NodeJS.EmitWarningOptions = {}): void {
    this.#calls.push([text, options])
  }

  clear(): void {
    this.#calls.length = 0
  }

  get texts(): string[] {
    return this.#calls.map(([text]) => text)
  }

  get codes(): Array<string | undefined> {
    return this.#calls.map(([, { code }]) => code)
  }

  get types(): Array<string | undefined> {
    return this.#calls.map(([, { type }]) => type)
  }

  textsOf(code: string): string[] {
    return this.#calls.filter(([, options]) => options.code === code).map(([text]) => text)
  }
}

/** Those of the running test: a file may call `warnings` more than once, for contracts that stand in it. */
const listening = new Set<Warnings>()

/** For the tests of the file or the `describe` that calls it: their process warnings, which are kept, not printed. */
export function warnings(): Warnings {
  const warned = new Warnings()
  let spy: { mockRestore(): void } | undefined
  beforeEach(() => {
    warned.clear()
    listening.add(warned)
    spy = jest.spyOn(process, 'emitWarning').mockImplementation((text, options) => {
      for (const one of listening) one.add(String(text), options as NodeJS.EmitWarningOptions)
    })
  })
  afterEach(() => {
    listening.delete(warned)
    spy?.mockRestore()
  })
  return warned
}
