import { WIDTH } from './marks.js'
import { page } from './page.js'
import { element, shown, text } from './svg.js'

/** A question with its answers, or an end: its name, and what it means. */
export interface Tree {
  /** The lines in the box; the first line of an end is its name. */
  readonly lines: readonly string[]
  readonly answers?: ReadonlyArray<readonly [answer: string, tree: Tree]>
}

/** Where the boxes of one depth stand. */
export interface Column {
  readonly x: number
  readonly width: number
}

const TOP = 58
const ROW = 66
const LINE = 16
const PADDING = 9

/** A decision tree, from the left to the right. */
export function treePicture(title: string, tree: Tree, columns: readonly Column[]): string {
  const body: string[] = []
  let ends = 0
  /** Draws a tree and gives the height of its middle. */
  const draw = (tree: Tree, depth: number): number => {
    const { x, width } = columns[depth]
    const middles = (tree.answers ?? []).map(([answer, below]) => [answer, draw(below, depth + 1)] as const)
    const y = middles.length === 0 ? TOP + ROW * (ends++ + 0.5) : (middles[0][1] + middles[middles.length - 1][1]) / 2
    for (const [answer, to] of middles) body.push(...branch(answer, x + width, y, columns[depth + 1].x, to))
    body.push(...box(tree, x, y, width))
    return y
  }
  draw(tree, 0)
  return page(
    WIDTH,
    TOP + ROW * ends + 14,
    title,
    wordsOf(tree).join('; '),
    text(24, 30, title, { class: 'name ink' }),
    ...body,
  )
}

function box({ lines, answers }: Tree, x: number, y: number, width: number): string[] {
  const height = lines.length * LINE + 2 * PADDING
  const top = y - height / 2
  const isEnd = answers === undefined
  return [
    element('rect', { x, y: top, width, height, rx: 6, class: isEnd ? 'paper allowed' : 'paper' }),
    ...lines.map((line, i) =>
      text(x + 10, top + PADDING + 12 + i * LINE, line, { class: isEnd && i === 0 ? 'ink bold' : isEnd ? '' : 'ink' }),
    ),
  ]
}

function branch(answer: string, fromX: number, fromY: number, toX: number, toY: number): string[] {
  const bendX = fromX + 14
  return [
    element('path', {
      class: 'rule',
      d: `M${shown(fromX)} ${shown(fromY)}H${shown(bendX)}V${shown(toY)}H${shown(toX)}`,
    }),
    ...(answer === '' ? [] : [text(bendX + 8, toY - 6, answer)]),
  ]
}

/** The tree in words, for those who do not see the picture. */
function wordsOf({ lines, answers = [] }: Tree): string[] {
  const own = lines.join(' ')
  return answers.length === 0
    ? []
    : answers.flatMap(([answer, below]) => [`${own} ${answer}: ${below.lines.join(' ')}`, ...wordsOf(below)])
}
