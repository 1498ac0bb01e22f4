/** Something is probably not as it was meant. Logged, never thrown at a request. `code` and `help` as express-rate-limit has them. */
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

/** An option that means something else than it did in older versions. */
export class ChangeWarning extends ValidationError {}
