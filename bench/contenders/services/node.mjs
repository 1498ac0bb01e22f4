/** @type {import('../http.mjs').Service} */
export async function service(limiter, plan) {
  if (limiter === 'fields by hand') {
    return (_req, res) => {
      plan.setFields((name, value) => res.setHeader(name, value))
      hello(res)
    }
  }
  if (limiter !== 'spillway') return (_req, res) => hello(res)
  const { rateLimit } = await plan.ours('node')
  const limit = rateLimit(await plan.ourOptions())
  return async (req, res) => {
    if (await limit(req, res)) hello(res)
  }
}

/** @param {import('node:http').ServerResponse} res */
function hello(res) {
  res.setHeader('Content-Type', 'text/plain')
  res.end('hello')
}
