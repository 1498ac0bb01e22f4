/**
 * Emits a process warning of the type SpillwayWarning with this code; in runtimes without process warnings it goes to the
 * console.
 */
export function emitWarning(code: string, text: string): void {
  if (globalThis.process?.emitWarning === undefined) console.warn(`${code}: ${text}`)
  else process.emitWarning(text, { type: 'SpillwayWarning', code })
}
