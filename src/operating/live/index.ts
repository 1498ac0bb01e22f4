/** The entry point `spillway/live`: limits that are changed while the service runs. */
export type { LiveChange } from './live-limit.js'
export {
  type LiveClearOptions,
  type LiveListOptions,
  LivePolicies,
  type LivePoliciesOptions,
  type LiveSetOptions,
} from './live-policies.js'
