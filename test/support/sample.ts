import { transformSync } from '@swc/core'

/** Runs a module of TypeScript that may await at its top. */
export async function runSample(
  code: string,
  require: (name: string) => unknown,
  globals: Record<string, unknown>,
): Promise<void> {
  const { code: outputText } = transformSync(code, {
    jsc: { parser: { syntax: 'typescript', decorators: true }, target: 'es2022', transform: { legacyDecorator: true } },
    module: { type: 'commonjs' },
  })
  const AsyncFunction = runSample.constructor as FunctionConstructor
  const names = Object.keys(globals)
  // In a block of its own, so that a sample may give its variables the names of globals.
  await new AsyncFunction('require', 'exports', ...names, `{\n${outputText}\n}`)(require, {}, ...Object.values(globals))
}
