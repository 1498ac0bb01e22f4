import { printable, printableJson } from '../../../limiter/core/printable.js'
import { counted } from '../table.js'

/** `unseen`: the check was not permitted, or no time was left for it. */
export type State = 'ok' | 'warning' | 'problem' | 'unseen'

/** An observation about one subject, and its remedy. */
export interface Finding {
  readonly subject: string
  readonly state: State
  readonly text: string
  readonly remedy?: string
  /** The node of a cluster; undefined: the one that was asked first, or all. */
  readonly node?: string
}

export const ok = (subject: string, text: string): Finding => ({ subject, state: 'ok', text })
export const warning = (subject: string, text: string, remedy: string): Finding => ({
  subject,
  state: 'warning',
  text,
  remedy,
})
export const problem = (subject: string, text: string, remedy: string): Finding => ({
  subject,
  state: 'problem',
  text,
  remedy,
})
export const unseen = (subject: string, text: string, remedy: string): Finding => ({
  subject,
  state: 'unseen',
  text,
  remedy,
})

export interface Diagnosis {
  readonly kind: 'redis' | 'postgres'
  /** The URL without the password. */
  readonly server: string
  readonly findings: readonly Finding[]
  readonly tookMs: number
}

const SUBJECT_WIDTH = 12
const STATE_WIDTH = 8

export function hasProblem({ findings }: Diagnosis): boolean {
  return findings.some(({ state }) => state === 'problem')
}

/** The text report: a line for each finding, with its remedy below. */
export function diagnosisAsText(diagnosis: Diagnosis, columns: number): string {
  const lines = diagnosis.findings.flatMap(({ subject, state, text, remedy, node }) => {
    const head = `${state.padEnd(STATE_WIDTH)} ${subject.padEnd(SUBJECT_WIDTH)} `
    const where = node === undefined ? '' : `${node}: `
    return [
      ...folded(head, where + text, columns),
      ...(remedy ? folded(' '.repeat(head.length), `→ ${remedy}`, columns) : []),
    ]
  })
  return `${printable(diagnosis.server)}\n\n${lines.join('\n')}\n\n${sum(diagnosis)}\n`
}

export function diagnosisAsJson(diagnosis: Diagnosis): string {
  const { kind, server, findings, tookMs } = diagnosis
  return `${printableJson({ [kind]: server, ok: !hasProblem(diagnosis), findings, tookMs: Math.round(tookMs) })}\n`
}

function sum({ findings, tookMs }: Diagnosis): string {
  const of = (state: State) => findings.filter(finding => finding.state === state).length
  const parts = [counted(of('problem'), 'problem'), counted(of('warning'), 'warning')]
  return `${parts.join(', ')} (${(tookMs / 1000).toFixed(1)} s)`
}

/** The text after its head, folded into lines of `columns`. */
function folded(head: string, text: string, columns: number): string[] {
  const lines: string[] = []
  let line = head
  let empty = true
  for (const word of printable(text).split(' ')) {
    if (!empty && line.length + 1 + word.length > columns) {
      lines.push(line)
      line = ' '.repeat(head.length)
      empty = true
    }
    line += empty ? word : ` ${word}`
    empty = false
  }
  return [...lines, line]
}
