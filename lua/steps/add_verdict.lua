--[[ Appends a verdict to `out`, in the form that consume returns. Reads retry, remaining, reset, delay, blocked and blocked_until. ]]
if retry == 0 and not blocked then
  out[size + 1] = remaining
  out[size + 2] = reset
  size = size + 2
  if shaped then
    size = size + 1
    out[size] = delay
  end
else
  if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
  out[size + 1] = -1 - remaining
  out[size + 2] = reset
  out[size + 3] = retry
  size = size + 3
end
