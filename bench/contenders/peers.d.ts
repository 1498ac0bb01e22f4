// The peers are there only when bench/ is installed, and types are checked without: nothing is known of them here.
declare module 'koa-ratelimit'
declare module 'rate-limit-redis'
declare module 'rate-limiter-flexible'
declare module 'redis-semaphore'
declare module 'bullmq'
