import { architecture } from './architecture.js'
import { stories } from './burst.js'
import { overload } from './overload.js'
import { overview } from './overview.js'
import { panel } from './panel.js'
import { promise } from './promise.js'

/** The pictures of the documentation: file name in docs/ → text. */
export function drawings(): Map<string, string> {
  const all = stories()
  return new Map([
    ['promise.svg', promise()],
    ['algorithms.svg', overview(all)],
    ['adaptive.svg', overload()],
    ['architecture.svg', architecture()],
    ...all.map(story => [`${story.limit.algorithm}.svg`, panel(story)] as const),
  ])
}
