--[[
  How an ask and its answer are written: as few texts as possible, since each part of a command or of a reply costs the server and the client more than a
  split. LINE_CHANGE matches the four words of a change in the text of an ask. line_answer gives the ten numbers of `head` with spaces between
  them, then the lists `granted`, `refused` and `changes`, each after a comma. It changes the lists. In `granted`, semaphore_hand_over writes '=' for the same word
  as of the grant before, and '+' for a number that is one more.
]]
local LINE_CHANGE = '([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n'

local function line_numbers(list)
  for i = 1, #list do list[i] = string.format('%.0f', list[i]) end
  return table.concat(list, ' ')
end

local function line_answer(head, granted, refused, changes)
  return line_numbers(head) .. ',' .. line_numbers(granted) .. ',' .. line_numbers(refused) .. ',' .. line_numbers(changes)
end
