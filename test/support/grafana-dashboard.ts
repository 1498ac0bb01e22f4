import { readFileSync } from 'node:fs'

/** One panel of the dashboard, with what it asks of Prometheus. */
export interface Panel {
  readonly title: string
  readonly description: string
  readonly unit: string
  readonly queries: ReadonlyArray<{ readonly expression: string; readonly legend: string }>
}

interface PanelJson {
  type: string
  title: string
  description: string
  fieldConfig: { defaults: { unit: string } }
  targets: Array<{ expr: string; legendFormat: string }>
}

/** The panels of a dashboard file that show series, in their order. */
export function panelsOf(file: string | URL): Panel[] {
  const { panels } = JSON.parse(readFileSync(file, 'utf8')) as { panels: PanelJson[] }
  return panels
    .filter(({ type }) => type === 'timeseries')
    .map(({ title, description, fieldConfig, targets }) => ({
      title,
      description,
      unit: fieldConfig.defaults.unit,
      queries: targets.map(({ expr, legendFormat }) => ({ expression: expr, legend: legendFormat })),
    }))
}

/** A query as Grafana sends it: with its variables filled in. */
export function filledIn(expression: string, interval: string): string {
  return expression.replaceAll('$job', '.*').replaceAll('$__rate_interval', interval)
}
