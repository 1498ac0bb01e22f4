// Each request is limited by the rule `rateLimit` of its route, if there is one. Limits of different names count apart.
import type { H3Event } from 'h3'
import { type HttpPolicyInput, rateLimit } from 'spillway/h3'

declare module 'h3' {
  interface RouteRules {
    rateLimit?: HttpPolicyInput<[event: H3Event]>
  }
}

const ruleOf = (event: H3Event) => event.context.routeRules?.rateLimit

export default rateLimit({ policy: event => ruleOf(event) ?? [], skip: event => ruleOf(event) === undefined })
