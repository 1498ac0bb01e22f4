// Needed by `await using` and by callers that dispose by hand; Node has it from 20.5.1 on. `Symbol.for`, so that two
// copies of this package use the same symbol.
if (Symbol.asyncDispose === undefined) {
  Object.defineProperty(Symbol, 'asyncDispose', { value: Symbol.for('Symbol.asyncDispose') })
}
