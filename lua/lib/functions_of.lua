--[[
  The operations of an algorithm on the state of a key, as a table of functions. The table is created on first use, because each call of a script creates
  its functions anew, which costs as much as their work.

  lua/algorithms has a file for each algorithm, named after it, of these sections:
    consume    the script that decides a batch under one limit of this algorithm. KEYS and ARGV as of steps/open_one, after `costs_at`: 5 for an
               algorithm whose limits have a burst, else 4; returns what consume returns. Most traffic comes this way.
    traits     shaped = true, if admitted requests may have to wait; has_log = true, if the state is a log and no row
    measure    for a row: the inline code that decides. It reads quota, window, burst, now, cost, at (nil: never used), x and y, and
               sets retry (0 allowed, -1 never), remaining, reset, delay and the next at, x and y. Not a function, because a call would double
               its cost.
    functions  sets `functions`. Of a row, given limit, now, …, at, x, y:
      notes_resets                        whether a settlement has to know of a reset, because what is charged after it cannot be told
                                          from what was charged before
      keeps_quota                         whether y is the quota by which the key was given its lifetime
      measure(limit, now, cost, …)        the section as a function
      charge(limit, now, cost, …)         at, x and y after a cost that may not fit (a debt)
      refund(limit, now, cost, …, note)   at, x and y after at most `cost` units were given back, newest first; nothing where there is
                                          nothing. Notes what a later give_back has to know.
      give_back(limit, now, units, receipt, …, note)   at, x and y without at most `units` of one decision's own; nothing in doubt
      ahead(limit, now, ahead, cost, …, waits)         when a cost fits behind `ahead` units, in ms: 0 now, -1 never. Units above what
                                          fits at once take whole windows. Never too long. `waits`: for a request that waits in line
      room(limit, now, ttl, …)            how many units may be sold as a lease of ttl ms, and how many ms it lasts
      raised(limit, now, ttl, …)          at, x and y from which the units of a lease are charged
      returned(limit, units, age)         how many of the units of a lease that was sold `age` ms ago come back if they are returned
      notes_leases                        whether a settlement has to know until when the newest lease lasts
    An algorithm whose state is no row gives open_state instead, which returns what row_state returns.
]]
local known_functions = {}
local function functions_of(algorithm)
  local functions = known_functions[algorithm]
  if not functions then
    -- @choose functions
    known_functions[algorithm] = functions
  end
  return functions
end
