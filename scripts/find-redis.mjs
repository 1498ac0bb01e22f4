#!/usr/bin/env node
// Makes sure that the tests can start a real Redis (or Valkey). Prints nothing if there is one; else installs it if permitted; else
// fails with one line that explains how to install it.
import { findPrograms } from './find-programs.mjs'

findPrograms({
  need: 'a Redis server',
  found: has => has('redis-server') || has('valkey-server'),
  packages: { apt: 'redis-server', apk: 'redis', brew: 'redis' },
  remedy:
    'The tests need redis-server or valkey-server on PATH: install it, like `apt-get install redis-server` or `brew install redis`.',
})
