/** One thing that must work on every runtime. */
export interface Case {
  readonly name: string
  /** Throws if it does not; gives what there is to say of it. */
  run(): Promise<string>
}

/** What a program prints for each case, as a line of JSON. */
export interface Outcome {
  readonly name: string
  readonly ms: number
  readonly told?: string
  readonly error?: string
}

/** The outcome that a program prints last. */
export const LAST = 'ends'

export const sleep = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))
