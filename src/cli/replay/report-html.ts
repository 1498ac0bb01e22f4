import { createHash } from 'node:crypto'
import { pageFiles } from '../../dashboard/page-files.js'
import { pageFacts } from './page-facts.js'
import type { Report } from './report.js'

/** The report as one page without other files. Its content security policy forbids all requests. */
export function reportAsHtml(report: Report, log: string): string {
  const data = pageFacts(report, log)
  const { script, style } = pageFiles().replay
  const policy = `default-src 'none'; script-src '${hashOf(script)}'; style-src '${hashOf(style)}'; img-src data:; base-uri 'none'; form-action 'none'`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>${escaped(data.log)}: what would have been refused</title>
<style>${style}</style>
</head>
<body>
<div id="app"><p class="column">This report needs JavaScript, which is part of this file.</p></div>
<script type="application/json" id="data">${JSON.stringify(data).replaceAll('<', '\\u003c')}</script>
<script>${script}</script>
</body>
</html>
`
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
