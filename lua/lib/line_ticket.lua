--[[ The next ticket of a line. Greater than any before, also when the keys of the line were lost. ]]
local function line_ticket(line)
  line.last = math.max(line.last + 1, line.micros)
  return line.last
end
