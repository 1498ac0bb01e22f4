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
