import { render } from 'preact'
import type { PageReport } from '../report.js'
import { Report } from './report.js'

const root = document.getElementById('app')
const text = document.getElementById('data')?.textContent
if (root !== null && text) {
  root.replaceChildren()
  render(<Report data={JSON.parse(text) as PageReport} />, root)
}
