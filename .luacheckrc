-- The Lua of Redis: Lua 5.1 and what the server gives to a script. ALGORITHM: see lua/README.md.
std = 'lua51'
read_globals = { 'KEYS', 'ARGV', 'redis', 'cmsgpack', 'struct', 'ALGORITHM' }
