/** A probable mistake in the use of the limiter. Logged, never thrown during a request. `code` and `help` as in express-rate-limit. */
export class ValidationError extends Error {
  readonly help: string

  constructor(
    readonly code: string,
    message: string,
  ) {
    const help = `https://express-rate-limit.github.io/${code}/`
    super(`${message} See ${help} for more information.`)
    this.name = new.target.name
    this.help = help
  }
}

/** An option whose meaning has changed since older versions. */
export class ChangeWarning extends ValidationError {}
