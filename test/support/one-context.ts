/** The options whose functions receive what a request has: not those that are objects with methods. */
const ASKED = new Set([
  ...['key', 'keyGenerator', 'policy', 'limit', 'max', 'cost', 'skip', 'settle', 'message', 'handler'],
])

type Fn = (...given: unknown[]) => unknown

/**
 * Options whose functions expect `(req, res, …)`, as the contracts write them, for a framework whose functions receive
 * one context in place of both.
 */
export function forContext<Options>(options: Options): Options {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) return options
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => {
      if (name === 'policy') return [name, typeof value === 'function' ? policyOf(value as Fn) : limitsOf(value)]
      if (name === 'defer') return [name, forContext(value)]
      return [name, ASKED.has(name) && typeof value === 'function' ? twice(value as Fn) : value]
    }),
  ) as Options
}

function twice(option: Fn): Fn {
  return (context, ...more) => option(context, context, ...more)
}

function policyOf(policy: Fn): Fn {
  return (context, ...more) => {
    const given = policy(context, context, ...more)
    return given instanceof Promise ? given.then(limitsOf) : limitsOf(given)
  }
}

function limitsOf(policy: unknown): unknown {
  return Array.isArray(policy) ? policy.map(forContext) : forContext(policy)
}
