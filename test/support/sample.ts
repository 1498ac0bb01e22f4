import ts from 'typescript'

/** Runs a module of TypeScript that may await at its top. */
export async function runSample(
  code: string,
  require: (name: string) => unknown,
  globals: Record<string, unknown>,
): Promise<void> {
  const compilerOptions = {
    module: ts.ModuleKind.CommonJS,
    target: ts.ScriptTarget.ES2022,
    esModuleInterop: true,
    experimentalDecorators: true,
  }
  const { outputText } = ts.transpileModule(code, { compilerOptions })
  const AsyncFunction = runSample.constructor as FunctionConstructor
  const names = Object.keys(globals)
  // In a block of its own, so that a sample may give its variables the names of globals.
  await new AsyncFunction('require', 'exports', ...names, `{\n${outputText}\n}`)(require, {}, ...Object.values(globals))
}
