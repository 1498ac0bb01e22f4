import { SpillwayError } from '../core/errors.js'

/** The files of lua/ without comments: 'limiter/consume' → text. A line that begins with `@` is a directive. */
export type LuaTexts = Readonly<Record<string, string>>

/**
 * The text of one script with its fragments in place. The directives, each a line of its own:
 *
 * - `@include NAME`: the fragment lib/NAME, once in a script, where it is first asked for, after the fragments that it includes itself.
 * - `@include steps/NAME`: a stretch of code that is repeated wherever it is asked for.
 * - `@include steps/NAME with steps/OTHER`: the same, with OTHER in the place of its line `@here`.
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
    const wanted = line === '@here' ? body : line.slice('@include '.length)
    if (wanted === undefined) return []
    const [name, , other] = wanted.split(' ')
    if (name.startsWith('steps/')) return linesOf(name, texts, included, inner, other)
    const fragment = `lib/${name}`
    if (included.has(fragment)) return []
    const lines = linesOf(fragment, texts, included, inner, undefined)
    included.add(fragment)
    return lines
  })
}
