/**
 * `Symbol.asyncDispose`, by which `await using` ends an object. Node has it from 20.5.1 on; where it is missing it is
 * made, by `Symbol.for`, so that two copies of this package use the same one.
 */
export const asyncDispose: typeof Symbol.asyncDispose = /* @__PURE__ */ symbol()

function symbol(): typeof Symbol.asyncDispose {
  if (Symbol.asyncDispose === undefined) {
    Object.defineProperty(Symbol, 'asyncDispose', { value: Symbol.for('Symbol.asyncDispose') })
  }
  return Symbol.asyncDispose
}
