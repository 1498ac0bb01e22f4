--[[ As functions_of, for a script that knows its algorithm: the section `functions` stands in the place of @here. ]]
local functions
local function functions_of()
  if not functions then
    -- @here
  end
  return functions
end
