#!/usr/bin/env node
// Makes sure that the tests of faults can compile what steps a server's clock (test/support/stepped-clock.c): see find-programs.mjs.
import { findPrograms } from './find-programs.mjs'

findPrograms({
  need: 'a C compiler',
  found: has => has('cc'),
  packages: { apt: 'build-essential', apk: 'build-base', brew: 'gcc' },
  remedy:
    'The tests of faults need a C compiler called cc on PATH: install it, like `apt-get install build-essential`.',
})
