import { render } from 'preact'
import { LargeChart } from './chart.js'

const root = document.getElementById('app')
if (root !== null) render(<LargeChart traffic={{ at: [], allowed: [], refused: [] }} label="" sentence="" />, root)
