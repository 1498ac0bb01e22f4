import { render } from 'preact'
import type { PageData } from '../page-data.js'
import { Report } from './report.js'

const root = document.getElementById('app')
const text = document.getElementById('data')?.textContent
if (root !== null && text) {
  root.replaceChildren()
  render(<Report data={JSON.parse(text) as PageData} />, root)
}
