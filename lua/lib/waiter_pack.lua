--[[ One who waits: its turn in ms, what it will spend, and its id: "process/number". ]]
local function waiter_pack(turn, cost, id)
  return struct.pack('>I6I7', turn, cost) .. id
end
