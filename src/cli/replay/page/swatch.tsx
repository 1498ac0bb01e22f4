/** The line styles of policies: they differ in their dashes, so that they are distinguishable without colours. */
const DASHES = ['', '7 4', '2 3', '12 4 2 4']
const SHADES = 4

export function lineOf(index: number): { readonly dashes: string; readonly shade: string } {
  return { dashes: DASHES[index % DASHES.length], shade: `line-${index % SHADES}` }
}

export function Swatch({ index }: { index: number }) {
  const { dashes, shade } = lineOf(index)
  return (
    <svg class={`swatch ${shade}`} viewBox="0 0 28 6" width="28" height="6" aria-hidden="true">
      <line x1="0" y1="3" x2="28" y2="3" stroke-dasharray={dashes} />
    </svg>
  )
}
