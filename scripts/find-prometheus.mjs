#!/usr/bin/env node
// As find-redis.mjs, for the checks of ops/: Prometheus and promtool.
import { findPrograms } from './find-programs.mjs'

findPrograms({
  need: 'Prometheus and promtool',
  found: has => has('prometheus') && has('promtool'),
  packages: { apt: 'prometheus', apk: 'prometheus', brew: 'prometheus' },
  remedy: 'The checks need prometheus and promtool on PATH: install them, like `apt-get install prometheus`.',
})
