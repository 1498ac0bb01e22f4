import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { root } from '../support/files.js'

const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
const PATH = /`((?:src|lua|test|docs|proofs|scripts|bench|examples)\/[\w./-]*[\w/]|package\.json)`/g

/** The recipes: title → rows of its table, each a file and the names that stand there. */
const recipes = [...page.matchAll(/^### (Add .+)$([\s\S]*?)(?=^##|(?![\s\S]))/gm)].map(([, title, text]) => {
  const rows = [...text.matchAll(/^\| `([^`]+)` \| (.+?) \| /gm)].map(([, file, names]) => ({
    file,
    names: [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => name),
  }))
  return [title, rows] as const
})

describe('docs/architecture.md', () => {
  test('has a recipe for each kind of addition', () => {
    const titles = recipes.map(([title]) => title)
    expect(titles).toEqual([
      'Add an algorithm',
      'Add a store',
      'Add a database',
      'Add a web framework',
      'Add a header form',
      'Add a script',
      'Add a Redis client',
    ])
  })

  test.each(recipes)('%s: every file exists and contains the names in the recipe', (_, rows) => {
    expect(rows.length).toBeGreaterThan(2)
    for (const { file, names } of rows) {
      const text = readFileSync(join(root, file), 'utf8')
      const missing = names.filter(name => !text.includes(name))
      expect({ file, names: names.length > 0, missing }).toEqual({ file, names: true, missing: [] })
    }
  })

  test('names only files and folders that exist', () => {
    const paths = [...page.matchAll(PATH)].map(([, path]) => path)
    expect(paths.length).toBeGreaterThan(50)
    expect(paths.filter(path => !existsSync(join(root, path)))).toEqual([])
  })

  test('links only to pages and headings that exist', () => {
    const links = [...page.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)]
    expect(links.length).toBeGreaterThan(20)
    for (const [link, file, anchor] of links) {
      const target = join(root, 'docs', file === '' ? 'architecture.md' : file)
      expect([link, existsSync(target)]).toEqual([link, true])
      if (anchor === undefined) continue
      const headings = [...readFileSync(target, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, text]) => anchorOf(text))
      expect([link, headings.includes(anchor)]).toEqual([link, true])
    }
  })
})

/** The anchor of a heading, as web pages of repositories make it. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-')
}
