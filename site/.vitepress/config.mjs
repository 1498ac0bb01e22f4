import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const { version, repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const home = repository.url.replace(/^git\+|\.git$/g, '')

/** A group of the sidebar. @param {string} text @param {Record<string, string>} pages titles by the names of pages */
const group = (text, pages) => ({
  text,
  items: Object.entries(pages).map(([page, title]) => ({ text: title, link: `/${page}` })),
})

/** The anchors that GitHub gives to headings: pages link to these. @param {string} heading */
const anchorOf = heading =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-')

/** A limit: what is above the line does not pass. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M2 14V8h3v6zm5 0V5h3v9zm5 0V8h3v6z" fill="#0b5c8a"/><path d="M1 4h14v1.5H1z" fill="#b3261e"/></svg>`

export default {
  title: 'spillway',
  description: 'Rate limits for Node services that are exact, bounded, cheap and visible.',
  lang: 'en',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  base: process.env.SITE_BASE ?? '/',
  srcDir: '.content',
  outDir: 'dist',
  cacheDir: '.cache',
  cleanUrls: false,
  appearance: true,
  markdown: {
    anchor: { slugify: anchorOf },
    languageAlias: { promql: 'sql' },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  vite: {
    // As users import it: the field "browser" of package.json counts.
    resolve: {
      alias: { 'spillway/testing': join(root, 'dist/esm/testing.js'), spillway: join(root, 'dist/esm/index.js') },
    },
    build: { chunkSizeWarningLimit: 2000 },
  },
  themeConfig: {
    search: {
      provider: 'local',
      // What users ask for comes before what explains how it is made.
      options: {
        miniSearch: {
          searchOptions: {
            boostDocument: (/** @type {string} */ id) =>
              /decisions\/|architecture|changelog|contributing/.test(id)
                ? 0.1
                : /from-|leaving|reference/.test(id)
                  ? 0.2
                  : 1,
          },
        },
      },
    },
    outline: { level: [2, 3] },
    externalLinkIcon: true,
    socialLinks: [{ icon: 'github', link: home }],
    nav: [
      { text: 'Start', link: '/getting-started' },
      { text: 'Guide', link: '/guide' },
      { text: 'Reference', link: '/reference' },
      { text: 'Try a policy', link: '/try' },
      { text: version, link: '/changelog' },
    ],
    sidebar: [
      group('Start', {
        'getting-started': 'Getting started',
        choosing: 'Choosing',
        try: 'Try a policy',
        semantics: 'What a limit means',
        'how-limiters-go-wrong': 'How limiters go wrong',
        recipes: 'Recipes',
      }),
      group('Use', {
        guide: 'Guide',
        waiting: 'Work that waits',
        adaptive: 'Limits that follow load',
        outgoing: 'Calls that go out',
        live: 'Live limits',
        'language-models': 'Language models',
        sql: 'In a database',
        reference: 'Reference',
      }),
      group('Frameworks', {
        express: 'Express',
        koa: 'Koa',
        fastify: 'Fastify',
        hono: 'Hono',
        h3: 'h3, Nitro',
        nest: 'NestJS',
        fetch: 'fetch: Next.js, Bun, Deno',
        node: 'node:http',
        'more-frameworks': 'SvelteKit, tRPC, Elysia …',
        mcp: 'Tools of MCP servers',
        ws: 'WebSockets',
      }),
      group('Run', {
        running: 'Running it',
        operating: 'Operating Redis',
        clients: 'Redis clients',
        observing: 'Metrics and alerts',
        grafana: 'Grafana',
        dashboard: 'Dashboard',
        cli: 'Command line',
        runtimes: 'Runtimes',
        troubleshooting: 'Troubleshooting',
      }),
      group('Coming from', {
        'from-express-rate-limit': 'express-rate-limit',
        'from-rate-limiter-flexible': 'rate-limiter-flexible',
        'from-koa-ratelimit': 'koa-ratelimit',
        'from-fastify-rate-limit': '@fastify/rate-limit',
        'from-hono-rate-limiter': 'hono-rate-limiter',
        'from-nestjs-throttler': '@nestjs/throttler',
        'from-upstash-ratelimit': '@upstash/ratelimit',
        'from-bottleneck': 'Bottleneck',
        'from-p-queue': 'p-queue, p-throttle, p-limit',
        'from-redisson': 'Redisson',
        leaving: 'Leaving spillway',
      }),
      group('Inside', {
        algorithms: 'Algorithms',
        leases: 'Leases',
        increx: 'Why not INCREX?',
        testing: 'How it is tested',
        benchmarks: 'Benchmarks',
        architecture: 'Architecture',
        'decisions/': 'Decisions',
        contributing: 'Contributing',
        security: 'Security',
        changelog: 'Changes',
      }),
    ],
  },
}
