--[[ Gives `drain_ms`: in how many ms `units`, in units x ms, drain at `quota`: as ceil_div, but without a call. Reads them. ]]
local drain_ms = units / quota
drain_ms = drain_ms - drain_ms % 1
if drain_ms * quota > units then drain_ms = drain_ms - 1 end
if drain_ms * quota < units then drain_ms = drain_ms + 1 end
