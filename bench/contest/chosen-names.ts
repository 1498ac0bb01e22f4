/** The benchmarks that the command line names; undefined if it names none. A name that there is not ends the process with the list. */
export function chosenNames(all: readonly string[]): readonly string[] | undefined {
  const names = process.argv.slice(2).filter(argument => !argument.startsWith('-'))
  const wrong = names.find(name => !all.includes(name))
  if (wrong !== undefined) {
    console.error(
      `bench: unknown benchmark "${wrong}": expected some of ${all.join(', ')}, like npm run bench -- redis memory`,
    )
    process.exit(1)
  }
  return names.length > 0 ? names : undefined
}
