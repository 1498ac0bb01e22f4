#!/usr/bin/env node
// Makes sure that the tests of pages have a real browser. Prints nothing if there is one; else installs it if permitted; else fails with one
// line that explains how to install it.
import { findPrograms } from './find-programs.mjs'

findPrograms({
  need: 'Chromium',
  found: has => has('chromium') || has('chromium-browser') || has('google-chrome'),
  packages: { apt: 'chromium', apk: 'chromium', brew: 'chromium' },
  remedy:
    'The tests need chromium, chromium-browser or google-chrome on PATH: install it, like `apt-get install chromium`.',
})
