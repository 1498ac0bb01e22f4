--[[
  Sets the number of permits of a semaphore. Notifies the waiters.

  KEYS[1..8], ARGV[1..6]  see semaphore_change; ARGV[4] counts only for 'add'
  ARGV[7]     'try': set them if none are set; 'set': set them; 'add': add this number, which may be negative
  ARGV[8]     permits

  Returns { 1, permits } if they were set, { 0, permits } if not, { -2 } without a semaphore to add to.
]]
function semaphore_set()
  local verb = ARGV[7]
  local permits = tonumber(ARGV[8])

  return semaphore_change(verb ~= 'add' and permits or nil, nil, function(s)
    local before = s.permits
    if verb == 'set' then s.permits = permits end
    if verb == 'add' then s.permits = math.max(0, before + permits) end
    local done = verb ~= 'try' or not s.stored[1]
    return { done and 1 or 0, s.permits }, done, s.permits ~= before
  end)
end

--[[
  Ends a lease, regardless of its holder, which is notified.

  KEYS[1..8], ARGV[1..6]  see semaphore_change
  ARGV[7]     id of the lease

  Returns { 1 } if it ended, { 0 } if there is none; { -2 } without a semaphore.
]]
function semaphore_force()
  local id = ARGV[7]

  return semaphore_change(nil, nil, function(s, channel)
    local ended, holder = semaphore_end(s, id)
    if ended == 1 then
      if holder then semaphore_notify(channel, holder) else semaphore_notify_direct_holders(s.leases, channel) end
    end
    return { ended }, ended == 1
  end)
end

--[[
  Takes a lease over: it gets a new fencing token, and its previous holder is notified.

  KEYS[1..8], ARGV[1..6]  see semaphore_change
  ARGV[7]     id of the lease
  ARGV[8]     the new holder, "process/number"
  ARGV[9]     length of the lease from now on, ms
  ARGV[10]    the newest token that the caller has seen

  Returns { 1, fencing token, deadline, permits }; { 0 } if there is no such lease; { -2 } without a semaphore.
]]
function semaphore_resume()
  local id = ARGV[7]
  local member = ARGV[8]
  local ms = tonumber(ARGV[9])
  local newest_seen = tonumber(ARGV[10])

  return semaphore_change(nil, newest_seen, function(s, channel)
    local taken = '~' .. id
    local scores = redis.call('ZMSCORE', s.leases, taken, id)
    local directly = scores[1]
    if (tonumber(directly or scores[2] or nil) or 0) <= s.now then return { 0 } end
    local permits, former = semaphore_parse_fact(redis.call('HGET', s.facts, id))
    -- From now on it has a fact, so the process that took it directly finds it lost.
    if directly then s.ids_to_drop[#s.ids_to_drop + 1] = taken end
    local token, deadline = semaphore_lease(s, id, ms, permits, member)
    if former then semaphore_notify(channel, former) end
    if directly then semaphore_notify_direct_holders(s.leases, channel) end
    return { 1, token, deadline, permits }, true
  end)
end

--[[
  Deletes a semaphore. Notifies its holders and waiters to check their state.

  KEYS[1..7]  the semaphore: see semaphore_read
  KEYS[8], ARGV[1..2]  see run_once
  ARGV[3]     the beginning of the channel names of all processes
  ARGV[4]     how long the request is remembered, ms; -1 for as long as usual

  Returns { 1 } if there was one, { 0 } if not.
]]
function semaphore_delete()
  local channel = ARGV[3]
  local keep = tonumber(ARGV[4])

  return run_once(function()
    local told = {}
    for _, fact in ipairs(redis.call('HVALS', KEYS[3])) do
      local _, member = semaphore_parse_fact(fact)
      if member and not told[member] then
        told[member] = true
        semaphore_notify(channel, member)
      end
    end
    semaphore_notify_direct_holders(KEYS[2], channel)
    semaphore_notify_direct_holders(KEYS[7], channel)
    local line = line_open(KEYS[4], KEYS[5], KEYS[6], channel)
    if not line.err then line_notify_all(line) end
    local existed = redis.call('EXISTS', KEYS[1])
    redis.call('UNLINK', unpack(KEYS, 1, 7))
    return { existed }, existed == 1
  end, keep >= 0 and keep or nil)
end
