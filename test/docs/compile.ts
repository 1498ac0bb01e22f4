import { join } from 'node:path'
import ts from 'typescript'
import { root } from '../support/files.js'
import type { Snippet } from './pages.js'
import { DECLARATIONS, UNTYPED } from './prelude.js'

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  esModuleInterop: true,
  // As NestJS has them.
  experimentalDecorators: true,
  types: ['node'],
  // Frameworks' types have errors of their own now and then.
  skipLibCheck: true,
}

/**
 * Where the snippets lie, as far as the compiler knows: inside the package, so that its own name leads to its build.
 */
const FOLDER = join(root, 'test/docs/snippets')

/**
 * The errors of the strict compiler in the snippets, against the built types: each as an ES module and, if it has no
 * top-level await, as CommonJS. One line for each error, with the page and its line.
 */
export function errorsOf(snippets: readonly Snippet[]): string[] {
  // It declares the route option `rateLimit` of Fastify, as we do: no program can have both.
  const alone = (snippet: Snippet) => snippet.code.includes("'@fastify/rate-limit'")
  const apart = snippets.filter(alone)
  const errors = errorsTogether(snippets.filter(snippet => !alone(snippet)))
  return apart.length === 0 ? errors : [...errors, ...errorsTogether(apart)]
}

function errorsTogether(snippets: readonly Snippet[]): string[] {
  const files = new Map<string, { text: string; snippet?: Snippet }>([
    [join(FOLDER, 'prelude.d.ts'), { text: DECLARATIONS }],
    [join(FOLDER, 'untyped.d.ts'), { text: UNTYPED }],
  ])
  snippets.forEach((snippet, i) => {
    files.set(join(FOLDER, `${i}.mts`), { text: snippet.code, snippet })
    if (!awaitsAtTop(snippet.code)) files.set(join(FOLDER, `${i}.cts`), { text: snippet.code, snippet })
  })
  const host = ts.createCompilerHost(OPTIONS)
  const { getSourceFile, fileExists, readFile } = host
  host.fileExists = name => files.has(name) || fileExists(name)
  host.readFile = name => files.get(name)?.text ?? readFile(name)
  host.getSourceFile = (name, language, ...rest) => {
    const text = files.get(name)?.text
    return text === undefined ? getSourceFile(name, language, ...rest) : ts.createSourceFile(name, text, language)
  }
  const program = ts.createProgram([...files.keys()], OPTIONS, host)
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n')
    const snippet = file && files.get(file.fileName)?.snippet
    if (file === undefined || snippet === undefined) return `${file?.fileName ?? 'the compiler'}: ${text}`
    const line = snippet.line + 1 + file.getLineAndCharacterOfPosition(start).line
    return `${snippet.page}:${line} (${file.fileName.endsWith('.cts') ? 'CommonJS' : 'ES module'}): ${text}`
  })
}

/** True if the module awaits outside of functions, which CommonJS cannot. */
function awaitsAtTop(code: string): boolean {
  const visit = (node: ts.Node): boolean => {
    if (ts.isFunctionLike(node)) return false
    if (ts.isAwaitExpression(node) || (ts.isForOfStatement(node) && node.awaitModifier !== undefined)) return true
    return ts.forEachChild(node, visit) ?? false
  }
  return visit(ts.createSourceFile('snippet.ts', code, ts.ScriptTarget.ES2022))
}
