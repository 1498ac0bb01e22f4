--[[ Returns the next ticket of a line. It is greater than every earlier one, even if the keys of the line were lost. ]]
local function line_ticket(line)
  line.last = math.max(line.last + 1, line.micros)
  return line.last
end
