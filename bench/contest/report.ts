import { pathToFileURL } from 'node:url'
import { type Claim, holds } from './claim.js'
import { chosenEffort, type Effort } from './effort.js'
import { figure, spread } from './figure.js'
import { prepare } from './prepare.js'
import { type Table, tableText } from './table.js'

/** What one file of bench/ has found. */
export interface Report {
  readonly title: string
  /** How it was measured, in a few sentences. */
  readonly method: string
  readonly tables: readonly Table[]
  readonly claims: readonly Claim[]
}

export type Measure = (effort: Effort) => Promise<Report>

export function reportText({ title, method, tables, claims }: Report): string {
  const own = claims.length > 0 ? [tableText(claimTable(claims))] : []
  return [`## ${title}`, method, ...tables.map(tableText), ...own].join('\n\n')
}

export function claimTable(claims: readonly Claim[], caption = 'Claims'): Table {
  const signs = { 'at least': '≥', 'at most': '≤', exactly: '=' }
  return {
    caption,
    head: ['claim', 'target', 'measured', 'holds'],
    rows: claims.map(claim => {
      const unit = claim.unit ? ` ${claim.unit}` : ' ×'
      return [
        claim.text,
        `${signs[claim.bound]} ${figure(claim.target)}${unit}`,
        `${spread(claim.measured)}${unit}`,
        holds(claim) ? 'yes' : 'NO',
      ]
    }),
  }
}

/** Measures and prints if `module` is the program that was started, so that every file of bench/ also runs by itself. */
export async function runAlone(module: ImportMeta, measure: Measure): Promise<void> {
  if (module.url !== pathToFileURL(process.argv[1] ?? '').href) return
  prepare()
  console.log(`\n${reportText(await measure(chosenEffort()))}`)
}
