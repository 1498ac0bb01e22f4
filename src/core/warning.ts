/**
 * Tells whoever runs the service: by a process warning of the type SpillwayWarning with this code, or on the console where the runtime has no
 * process warnings.
 */
export function emitWarning(code: string, text: string): void {
  if (globalThis.process?.emitWarning === undefined) console.warn(`${code}: ${text}`)
  else process.emitWarning(text, { type: 'SpillwayWarning', code })
}
