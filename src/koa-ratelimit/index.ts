export { ratelimit, ratelimit as default } from './middleware.js'
export type { HeaderNames as HeaderNameOptions, LimiterOptions as MiddlewareOptions } from './options.js'
