--[[
  Tells those who wait, from `first` on, what word_of(waiter) gives: its new wait in ms, or a word below 0. One
  message, "number:word …", to the channel of each process.
]]
local function tell_waiters(waiting, first, channel, word_of)
  local words, processes = {}, {}
  for i = first, #waiting do
    local process, number = string.match(waiting[i].id, '^(.*)/(.*)$')
    if not words[process] then
      words[process] = {}
      processes[#processes + 1] = process
    end
    table.insert(words[process], number .. ':' .. string.format('%.0f', word_of(waiting[i])))
  end
  for _, process in ipairs(processes) do
    local ear = channel .. process
    redis.call('PUBLISH', ear, table.concat(words[process], ' '))
  end
end
