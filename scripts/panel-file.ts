/** The file in docs/observing/ that shows a panel of the Grafana dashboard. */
export function panelFile(title: string): string {
  return `${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}.svg`
}
