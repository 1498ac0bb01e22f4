--[[
  The text forms of an ask and of its answer. Both are single texts, because each further part of a command or reply costs the server and the client more
  than splitting a text. LINE_CHANGE matches the four words of a change in an ask. line_answer returns the ten numbers of `head` with spaces between
  them, then the lists `granted`, `refused` and `changes`, each after a comma; it modifies the lists. In `granted`, semaphore_hand_over writes '=' for a
  word that equals the one of the grant before, and '+' for a number that is greater by one.
]]
local LINE_CHANGE = '([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n'

local function line_numbers(list)
  for i = 1, #list do list[i] = string.format('%.0f', list[i]) end
  return table.concat(list, ' ')
end

local function line_answer(head, granted, refused, changes)
  return line_numbers(head) .. ',' .. line_numbers(granted) .. ',' .. line_numbers(refused) .. ',' .. line_numbers(changes)
end
