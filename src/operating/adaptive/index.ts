export type { AdaptivePermits } from '../../http/concurrency/permits.js'
export type { Load } from '../../http/load.js'
export {
  type AdaptiveAlgorithm,
  type AdaptivePermitsOptions,
  adaptivePermits,
} from './adaptive-permits.js'
export { type FollowLoadOptions, followLoad, type LoadFollower } from './follow-load.js'
export { type CustomLoadOptions, customLoad } from './load.js'
export { type LoadPolicy, type LoadPolicyOptions, loadPolicy } from './load-policy.js'
export { type ProcessLoadOptions, processLoad } from './process-load.js'
