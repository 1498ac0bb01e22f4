/** The types beside those of its options that every adapter exports. */
export type { AddressKeyOptions, ClientAddresses, ClientAddressOptions } from './address/client.js'
export type { GivenKey } from './call-option.js'
export type { HeaderForm } from './headers.js'
export type { BlockOptions } from './rate-limit/auto-block.js'
export type { DeferOptions } from './rate-limit/deferral.js'
export type { HttpCalendarLimitOptions, HttpLimitOptions, HttpPolicyInput } from './rate-limit/options.js'
export type { ResponseEnd } from './response-watch.js'
