import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { expect, test } from '@jest/globals'
import ts from 'typescript'
import { root } from '../support/files.js'

/** What an editor shows of an option. */
interface Hover {
  /** `http/shed.ts priority` */
  readonly where: string
  readonly text: string
  readonly optional: boolean
  readonly type: string
}

/** Every option of every public interface of options, each once. */
function hovers(): Hover[] {
  const entries: string[] = Object.values(JSON.parse(readFileSync(join(root, 'scripts/entries.json'), 'utf8')))
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const files = entries.map(file => join(root, file))
  const program = ts.createProgram(files, { ...options, noEmit: true })
  const checker = program.getTypeChecker()
  const found = new Map<ts.Declaration, Hover>()
  for (const file of files) {
    const entry = checker.getSymbolAtLocation(program.getSourceFile(file) as ts.SourceFile) as ts.Symbol
    for (const exported of checker.getExportsOfModule(entry)) {
      if (!exported.name.endsWith('Options')) continue
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      for (const option of checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol))) {
        const [declaration] = option.declarations ?? []
        const source = declaration?.getSourceFile().fileName ?? ''
        if (!source.startsWith(join(root, 'src'))) continue
        found.set(declaration, {
          where: `${relative(join(root, 'src'), source)} ${option.name}`,
          text: ts.displayPartsToString(option.getDocumentationComment(checker)),
          optional: ts.isPropertySignature(declaration) && declaration.questionToken !== undefined,
          type: checker.typeToString(checker.getTypeOfSymbol(option)),
        })
      }
    }
  }
  return [...found.values()]
}

/** What stands for another option, or does nothing, has no default of its own. */
const REFERS = /^(Another|Old) name|^Instead of|^As in `|^Not needed|ignored here|not recognised|Mutually exclusive/
const EXAMPLE = /[`'"]|\d/

test('the hover text of every option has its default, and an example unless it is true or false', () => {
  const all = hovers()
  expect(all.length).toBeGreaterThan(200)
  const owed = all.filter(({ text }) => !REFERS.test(text))
  expect(
    owed
      .filter(({ optional, text }) => optional && !/default|undefined: |instead of policy/i.test(text))
      .map(({ where }) => where),
  ).toEqual([])
  const plain = owed.filter(({ type }) => !/^boolean( \| undefined)?$/.test(type))
  expect(plain.filter(({ text }) => !EXAMPLE.test(text)).map(({ where }) => where)).toEqual([])
}, 60_000)
