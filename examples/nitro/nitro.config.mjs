// A service of Nitro 3 whose route rules limit two routes apart. The limits themselves: middleware/limits.ts.
//
//   npm install nitro spillway && npx nitro build && node .output/server/index.mjs
export default {
  serverDir: './',
  routeRules: {
    '/login': { rateLimit: { quota: 3, window: '15m', name: 'login' } },
    '/search/**': { rateLimit: { quota: 5, window: '1m', name: 'search' } },
  },
}
