import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { pageFiles } from '../page-files.js'

/** A file of the page. */
export interface PageFile {
  readonly type: string
  readonly body: Buffer
  readonly gzipped: Buffer
  readonly etag: string
}

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#4d7ff0" stroke-width="2.4" stroke-linecap="round">' +
  '<path d="M2 6h6c3 0 4 2 5 5s2 7 5 7h4"/><path d="M2 12h3c3 0 4 2 5 4s2 2 3 2" opacity=".55"/></svg>'

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>spillway</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
</head>
<body><div id="app"></div><noscript>This page needs JavaScript.</noscript></body>
</html>
`

const FILES: Readonly<Record<string, () => PageFile>> = {
  '': once('text/html; charset=utf-8', () => PAGE),
  'page.js': once('text/javascript; charset=utf-8', () => pageFiles().dashboard.script),
  'page.css': once('text/css; charset=utf-8', () => pageFiles().dashboard.style),
  'icon.svg': once('image/svg+xml', () => ICON),
}

/** The file of this name, '' for the page; undefined if there is none. */
export function pageFile(name: string): PageFile | undefined {
  return Object.hasOwn(FILES, name) ? FILES[name]() : undefined
}

function once(type: string, text: () => string): () => PageFile {
  let file: PageFile | undefined
  return () => {
    if (file === undefined) {
      const body = Buffer.from(text())
      const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 20)}"`
      file = { type, body, gzipped: gzipSync(body, { level: 9 }), etag }
    }
    return file
  }
}
