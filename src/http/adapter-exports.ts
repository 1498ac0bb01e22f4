/** The types beside those of its options that every adapter exports. */
export type { AddressKeyOptions } from './address/client-options.js'
export type { DeferOptions } from './deferral/deferral.js'
export type { GivenKey } from './given-key.js'
export type { HeaderForm } from './headers.js'
export type { BlockOptions } from './rate-limit/auto-block.js'
export type { HttpCalendarLimitOptions, HttpLimitOptions, HttpPolicyInput } from './rate-limit/limit-keys.js'
export type { ResponseEnd } from './response-watch.js'
