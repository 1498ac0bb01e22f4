import { posix } from 'node:path'
import ts from 'typescript'

export interface Import {
  readonly from: string
  /** A path from the root for what is ours, else as written: 'express', 'node:fs'. */
  readonly to: string
  /** True when nothing of it is left at run time. */
  readonly typeOnly: boolean
}

/**
 * What a source file imports in whatever manner: import, export from, import(), require(), import('x').Type, reference.
 */
export function importsOf(file: string, text: string): Import[] {
  const imports: Import[] = []
  const add = (specifier: ts.Node | undefined, typeOnly: boolean) => {
    if (!specifier) return
    const to = ts.isStringLiteralLike(specifier) ? resolve(file, specifier.text) : `(computed) ${specifier.getText()}`
    imports.push({ from: file, to, typeOnly })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, isTypeOnly(node.importClause))
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly || allTypes(node.exportClause))
    else if (ts.isExternalModuleReference(node)) add(node.expression, false)
    else if (ts.isImportTypeNode(node))
      add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : node.argument, true)
    else if (ts.isModuleDeclaration(node) && ts.isStringLiteral(node.name)) add(node.name, true)
    else if (ts.isCallExpression(node) && isLoading(node.expression)) add(node.arguments[0], false)
    ts.forEachChild(node, visit)
  }
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true)
  for (const { fileName } of source.typeReferenceDirectives) imports.push({ from: file, to: fileName, typeOnly: true })
  visit(source)
  return imports
}

function isTypeOnly(clause: ts.ImportClause | undefined): boolean {
  if (!clause) return false
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true
  return !clause.name && allTypes(clause.namedBindings)
}

function allTypes(bindings: ts.NamedImportBindings | ts.NamedExportBindings | undefined): boolean {
  if (!bindings || !(ts.isNamedImports(bindings) || ts.isNamedExports(bindings))) return false
  return bindings.elements.length > 0 && bindings.elements.every(element => element.isTypeOnly)
}

function isLoading(callee: ts.Expression): boolean {
  if (callee.kind === ts.SyntaxKind.ImportKeyword) return true
  return ts.isIdentifier(callee) && callee.text === 'require'
}

function resolve(from: string, specifier: string): string {
  if (!specifier.startsWith('.')) return specifier
  return posix.join(posix.dirname(from), specifier).replace(/\.js$/, '.ts')
}
