/** Says what is being measured: a line on standard error, so that standard output holds the results alone. */
export function progress(text: string): void {
  console.error(`  ${new Date().toTimeString().slice(0, 8)}  ${text}`)
}
