import { SpillwayError } from '../core/errors.js'

/** The parts of the process that a command may use. */
export type Terminal = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr' | 'env'>

/** One subcommand of `spillway`. */
export interface Command {
  /** One line for the list of commands. */
  readonly summary: string
  /** What `spillway <command> --help` prints. */
  readonly help: string
  /**
   * Resolves to the exit code. Throws `UsageError` or `PolicyError` for wrong arguments, any other `SpillwayError` for faults;
   * each has a one-line message. `interrupted` is aborted by Ctrl-C: the command should end quickly and report what it knows.
   */
  run(args: readonly string[], terminal: Terminal, interrupted: AbortSignal): Promise<number>
}

export const EXIT = { ok: 0, fault: 1, usage: 2, interrupted: 130 } as const

/**
 * Resolves when the text has been passed on, even to a slow reader: a process that exits earlier loses what is in the pipe.
 * Rejects with the system's error if the reader has gone (EPIPE), with `SpillwayError` if the text cannot be written.
 */
export function write(output: NodeJS.WritableStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write(text, error => {
      if (!error) resolve()
      else if ((error as NodeJS.ErrnoException).code === 'EPIPE') reject(error)
      else reject(new SpillwayError(`cannot write the output: ${error.message}`, { cause: error }))
    })
  })
}
