/** The first page, shown before any process has reported. */
import { Code, Panel } from './widgets.js'

const CODE = `import { reporter } from 'spillway/dashboard'
const observer = reporter({ client })
app.use(rateLimit({ policy: '100/1m', store: new RedisStore(client), observer }))`

export function Start() {
  return (
    <Panel title="Nothing has reported yet">
      <div class="body text">
        <p>
          This dashboard shows what your processes tell. Give each of them a reporter, over the same Redis and the same
          prefix as the limiter's store:
        </p>
        <Code text={CODE} />
        <p>
          <code>client</code> is your client of ioredis or node-redis. The same <code>observer</code> goes to{' '}
          <code>RateLimiter</code>, <code>SharedRateLimiter</code>, <code>Semaphore</code> and <code>DelayQueue</code>.
          The first numbers are here two seconds after the first request.
        </p>
      </div>
    </Panel>
  )
}

/** Grey shapes of the final size, for the moment until the first numbers come. */
export function Loading() {
  return (
    <div class="loading" aria-hidden="true">
      <div class="shape line" />
      <div class="panel">
        <header>
          <div class="shape word" />
        </header>
        <div class="body">
          {[1, 2, 3, 4, 5].map(row => (
            <div key={row} class="shape row" />
          ))}
        </div>
      </div>
    </div>
  )
}
