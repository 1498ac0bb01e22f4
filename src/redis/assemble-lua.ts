import { SpillwayError } from '../core/errors.js'

/**
 * The files of lua/ without comments: 'limiter/consume' → text. The sections of lua/algorithms/NAME.lua are separate entries:
 * 'algorithms/NAME.SECTION' → text. A line that begins with `@` is a directive.
 */
export type LuaTexts = Readonly<Record<string, string>>

/**
 * Assembles one script from its fragments. The directives, each on a line of its own:
 *
 * - `@include NAME`: the fragment lib/NAME, once per script, at its first include, after the fragments that it includes itself.
 * - `@include steps/NAME`: a piece of code that is inserted at every include. `@include algorithms/NAME.SECTION` likewise.
 * - `@include steps/NAME with OTHER`: the same, with the piece OTHER in place of its line `@here`. If OTHER is an algorithm, its
 *   section SECTION replaces each line `@here SECTION`.
 * - `@choose SECTION`: that section of the algorithm named by the variable `algorithm`, out of those that have such a section.
 *
 * Fragments included in place of `@here` or `@choose` are local to a block of their own.
 */
export function assembleLua(file: string, texts: LuaTexts): string {
  return linesOf(file, texts, new Set(), [], undefined).join('\n')
}

function linesOf(
  file: string,
  texts: LuaTexts,
  included: Set<string>,
  path: readonly string[],
  body: string | undefined,
): string[] {
  if (path.includes(file)) throw new SpillwayError(`lua/${file}.lua includes itself: ${[...path, file].join(' → ')}`)
  const text = texts[file]
  if (text === undefined)
    throw new SpillwayError(`lua/${path.at(-1)}.lua includes lua/${file}.lua, which does not exist`)
  const inner = [...path, file]
  return text.split('\n').flatMap(line => {
    if (!line.startsWith('@')) return line === '' ? [] : [line]
    const [directive, name, , other] = line.split(' ')
    if (directive === '@here') {
      if (body === undefined) return []
      return linesOf(name === undefined ? body : `${body}.${name}`, texts, new Set(included), inner, undefined)
    }
    if (directive === '@choose') return choice(name, texts, included, inner)
    if (name.includes('/')) return linesOf(name, texts, included, inner, other)
    const fragment = `lib/${name}`
    if (included.has(fragment)) return []
    const lines = linesOf(fragment, texts, included, inner, undefined)
    included.add(fragment)
    return lines
  })
}

function choice(section: string, texts: LuaTexts, included: ReadonlySet<string>, path: readonly string[]): string[] {
  const sections = Object.keys(texts).filter(file => file.startsWith('algorithms/') && file.endsWith(`.${section}`))
  const lines = sections.flatMap((file, i) => [
    `${i === 0 ? 'if' : 'elseif'} algorithm == '${algorithmOfSection(file)}' then`,
    ...linesOf(file, texts, new Set(included), path, undefined),
  ])
  return lines.length === 0 ? [] : [...lines, 'end']
}

/** 'algorithms/fixed_window.measure' → 'fixed-window'. */
export function algorithmOfSection(file: string): string {
  return file.slice('algorithms/'.length, file.indexOf('.')).replaceAll('_', '-')
}
