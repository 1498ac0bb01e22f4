export type { HeaderNames as HeaderNameOptions, LimiterOptions as MiddlewareOptions } from './middleware.js'
export { ratelimit, ratelimit as default } from './middleware.js'
