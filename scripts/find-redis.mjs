#!/usr/bin/env node
// Makes sure that the tests have a real Redis (or Valkey) to start: silent when there is one, else installs it where it may, else
// fails with one line that tells how.
import { findPrograms } from './find-programs.mjs'

findPrograms({
  need: 'a Redis server',
  found: has => has('redis-server') || has('valkey-server'),
  packages: { apt: 'redis-server', apk: 'redis', brew: 'redis' },
  remedy:
    'The tests need redis-server or valkey-server on PATH: install it, like `apt-get install redis-server` or `brew install redis`.',
})
