/** The name that was most likely meant: the one that differs in nothing but case, in up to two letters, or in length. */
export function nearestName(given: string, names: readonly string[]): string | undefined {
  const text = given.toLowerCase()
  let near: string | undefined
  let least = 3
  for (const name of names) {
    const distance = editDistance(text, name.toLowerCase())
    if (distance < least && distance < name.length) {
      near = name
      least = distance
    }
  }
  return near ?? names.find(name => text.length > 2 && contains(text, name.toLowerCase()))
}

function contains(a: string, b: string): boolean {
  return a.includes(b) || b.includes(a)
}

/** How many letters must be put in, left out or changed (Levenshtein). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]
}
