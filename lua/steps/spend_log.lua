--[[
  Notes in `log`, that of `key`, that `cost` is spent now, and the text of the moment at which the key may go, unless it outlives that;
  log_save writes it at the end. Reads now, window, clock, calm (see steps/spend_row) and what steps/lifetime reads; uses changed, algorithm and functions_of.
]]
if log.newest and log.newest > now then
  -- A lease lives, whose units count from its end: the decision's units are inserted before them.
  reset = log.newest - now + window
  -- @include steps/lifetime
  if not log.expire_at then changed[#changed + 1] = key end
  log.expire_at = text
  log.inserted, log.inserted_at = (log.inserted or 0) + cost, now
  log.total = log.total + cost
else
  local ends, reset = 0, window
  if log.total + cost > 9007199254740991 then
    -- The list is rewritten, and has no lifetime then.
    functions_of(algorithm).rebase(key, log)
  elseif log.stored and clock == '' and not (calm and log.expires == 0) then
    ends = log.stored + window
  end
  log.total = log.total + cost
  log.newest = now
  -- The oldest entry is also the newest: it grows.
  if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
  if not log.changed then
    changed[#changed + 1] = key
    log.changed = true
  end
  if not log.expire_at then
    -- Lifetimes end at multiples of four seconds: see steps/lifetime. It was set for a state that mattered until `ends`; 0 where that is not known.
    if ends + 4999 - (ends + 4999) % 4000 < now + reset + 1000 then
      -- @include steps/lifetime
      log.expire_at = text
    end
  end
end
