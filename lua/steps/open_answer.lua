--[[ Gives pack and read, `out` and its size for steps/add_verdict, and what steps/open_lifetimes gives. Reads clock and now; uses now_ms. ]]
local pack, read = struct.pack, struct.unpack
-- @include steps/open_lifetimes
local out, size = { now }, 1
