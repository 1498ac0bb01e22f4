/** The entry point `spillway/dashboard`: who is limited, by what, and why; look, and change. */
export { type ReporterOptions, reporter } from './report/reporter.js'
export { type DashboardHandler, dashboard } from './server/handler.js'
export type { DashboardAccess, DashboardOptions, NamedAccess } from './server/options.js'
