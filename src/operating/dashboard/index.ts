/** The entry point `spillway/dashboard`: shows which keys are limited, by which limits, and why; allows changes. */
export { type ReporterOptions, reporter } from './report/reporter.js'
export { type DashboardHandler, dashboard } from './server/handler.js'
export type { DashboardAccess, DashboardOptions, NamedAccess } from './server/options.js'
