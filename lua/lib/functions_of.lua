--[[
  The operations of an algorithm on the state of a key, as a table of functions. The table is created on first use, because each call of a script creates
  its functions anew, which costs as much as their work.

  lua/algorithms has a file for each algorithm, named after it, of these sections:
    consume    the script that decides a batch under one limit of this algorithm. KEYS and ARGV as of steps/open_one, after `costs_at`: 5 for an
               algorithm whose limits have a burst, else 4; returns what consume returns, or one number for one request that is admitted (see
               steps/answer_lone). Most requests are decided by this script. The time is TIME's, read once: no lifetime is taken for it.
    traits     shaped = true, if admitted requests may have to wait; has_log = true, if the state is a log and no row
    measure    for a row: the inline code that decides. It reads quota, window, burst, now, cost, at (nil: never used), x and y, and
               sets retry (0 allowed, -1 never), remaining, reset, delay and the next at, x and y. Not a function, because a call would double
               its cost.
    functions  sets `functions`. Of a row, given limit, now, …, at, x, y:
      notes_resets                        whether a reset must be recorded for settlements, because the state does not tell charges after it
                                          from charges before it
      scaled(level, from, to)             of a bucket: the level that is the same share of another capacity (see steps/measure_bucket)
      measure(limit, now, cost, …)        the section as a function
      charge(limit, now, cost, …)         at, x and y after a cost that may not fit (a debt)
      refund(limit, now, cost, …, note)   at, x and y after at most `cost` units were given back, newest first. Records in `note` what a
                                          later settle must know.
      settle(limit, now, units, receipt, …, note)   at, x and y without at most `units` of one decision's own units, and without
                                          any whose owner is in doubt
      ahead(limit, now, ahead, cost, …, waits)         when a cost fits behind `ahead` units, in ms: 0 now, -1 never. Units above what
                                          fits at once take whole windows. Never later than the true moment. `waits`: the request waits in line
      room(limit, now, ttl, …)            how many units may be sold as a lease of ttl ms, and how many ms it lasts
      raised(limit, now, ttl, …)          at, x and y from which the units of a lease are charged
      returnable(limit, units, age)       how many of the returned units of a lease that was sold `age` ms ago become free
      notes_leases                        whether the end of the newest lease must be recorded for settlements
    An algorithm whose state is a log has open_state instead, which returns the same object as row_state; and for decisions open_log, insert, rebase,
    measure and ahead, the functions of lua/lib with `log_` before these names (measure: sliding_window).
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
