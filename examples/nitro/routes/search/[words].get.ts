import type { H3Event } from 'h3'

export default (event: H3Event) => `results, ${event.context.rateLimit?.remaining} left\n`
