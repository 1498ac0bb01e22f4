import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../support/files.js'

/** A block of code on a page, with the output that the page shows. */
export interface Snippet {
  readonly page: string
  /** Of the opening fence, from 1. */
  readonly line: number
  readonly code: string
  /** The text block that follows; undefined if there is none. */
  readonly output: string | undefined
}

/** README.md and the pages of docs/, by their path in the repository. */
export const PAGES: readonly string[] = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter(name => name.endsWith('.md'))
    .map(name => `docs/${name}`),
]

export const SNIPPETS: readonly Snippet[] = PAGES.flatMap(snippetsOf)

export function textOf(page: string): string {
  return readFileSync(join(root, page), 'utf8')
}

function snippetsOf(page: string): Snippet[] {
  const text = textOf(page)
  return [...text.matchAll(/^```(?:ts|js)\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?/gms)].map(
    ({ index, 1: code, 2: output }) => ({
      page,
      line: text.slice(0, index).split('\n').length,
      code,
      output,
    }),
  )
}
