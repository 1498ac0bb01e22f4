#!/usr/bin/env node
// Builds the site into site/dist: the pages of docs/, and those of site/pages, which need a browser. `--serve` shows it
// afterwards on a port of this machine. SITE_BASE is the path at which it will stand, like /spillway/.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const site = dirname(fileURLToPath(import.meta.url))
const root = join(site, '..')
const content = join(site, '.content')
const { repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const source = `${repository.url.replace(/^git\+|\.git$/g, '')}/blob/main/`

/** Pages beside those of docs/, by their names on the site. @type {Record<string, string>} */
const BESIDE = { 'CHANGELOG.md': 'changelog.md', 'CONTRIBUTING.md': 'contributing.md', 'SECURITY.md': 'security.md' }

/**
 * Links as they must be on the site: what is no page of it stands in the repository.
 * @param {string} text
 * @param {string} file
 */
function withLinks(text, file) {
  return text.replace(/(?<=\]\()(?![a-z]+:|#)([^)\s]+)(?=\))/g, link => {
    const [path, anchor] = posix.join(posix.dirname(file), link).split('#')
    const onSite = path.startsWith('docs/')
      ? path.slice('docs/'.length).replace(/README\.md$/, 'index.md')
      : BESIDE[path]
    const end = anchor === undefined ? '' : `#${anchor}`
    if (onSite === undefined || !/\.\w+$/.test(onSite)) return path === 'README.md' ? '/' : `${source}${path}${end}`
    return `/${onSite}${end}`
  })
}

/** @param {string} from in the repository @param {string} to on the site */
function writePage(from, to) {
  writeFileSync(join(content, to), withLinks(readFileSync(join(root, from), 'utf8'), from))
}

if (!existsSync(join(site, 'node_modules/vitepress'))) {
  execFileSync('npm', ['ci', '--ignore-scripts'], { cwd: site, stdio: 'inherit', shell: process.platform === 'win32' })
}
rmSync(content, { recursive: true, force: true })
cpSync(join(root, 'docs'), content, { recursive: true })
for (const file of readdirSync(content, { recursive: true, encoding: 'utf8' })) {
  if (file.endsWith('.md')) writePage(posix.join('docs', file.replaceAll('\\', '/')), file)
}
for (const [from, to] of Object.entries(BESIDE)) writePage(from, to)
// A folder's page is its index.
renameSync(join(content, 'decisions/README.md'), join(content, 'decisions/index.md'))
cpSync(join(site, 'pages'), content, { recursive: true })

const vitepress = join(site, 'node_modules/vitepress/bin/vitepress.js')
execFileSync(process.execPath, [vitepress, 'build', site], { stdio: 'inherit' })
if (process.argv.includes('--serve')) execFileSync(process.execPath, [vitepress, 'serve', site], { stdio: 'inherit' })
