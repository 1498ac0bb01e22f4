-- What can be done with rows, by algorithm. Each call of a script makes its functions anew, which costs as much as
-- their work: so they are made when an algorithm is first used.
local arithmetic = {}

--[[
  The functions of an algorithm whose state is a row. Given limit (see limits.read), now, …, and the row (at, and two
  numbers whose meaning is the algorithm's):
    measure(limit, now, cost, row…)            the arithmetic of lua/limiter/algorithms
    charge(limit, now, cost, row…)             the row after a cost that may not fit (a debt)
    refund(limit, now, cost, row…, note)       the row after at most `cost` units were given back, newest first. Records
                                               in `note` what a later settle must know. Nothing: it stays as it is
    settle(limit, now, units, receipt, row…, note)  the row without at most `units` of one decision's own units, and
                                               without any whose owner is in doubt. Nothing: it stays as it is
    room(limit, now, ttl, row…)                how many units may be sold as a lease of ttl ms, and how many ms it lasts
    raised(limit, now, ttl, row…)              the row from which the units of a lease are charged
    returnable(limit, units, age)              how many of the returned units of a lease that was sold `age` ms ago
                                               become free
    notes_resets   whether a reset must be recorded for settlements, because the state does not tell charges after it
                   from charges before it
    notes_leases   whether the end of the newest lease must be recorded for settlements
    is_bucket      whether a level is kept for the limit after this one, at quota 0
]]
function arithmetic.of(algorithm)
  if algorithm == 'fixed_window' then
    return require 'limiter.changes.window_changes'
  elseif algorithm == 'sliding_counter' then
    return require 'limiter.changes.counter_changes'
  elseif algorithm == 'leaky_bucket' then
    return require 'limiter.changes.leaky_changes'
  elseif algorithm == 'token_bucket' then
    return require 'limiter.changes.token_changes'
  end
  return nil
end

return arithmetic
