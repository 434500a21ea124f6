-- The token bucket: on one bucket, on several that decide together, or on several
-- that decide each for itself.
--
-- KEYS  one key a bucket; with Redis Cluster all in one hash slot
-- ARGV  a capacity and a charge a bucket, in microseconds, and then how many
--       equal calls are wanted: one number for buckets that decide together, 1
--       if it is left out, or one for each key if each decides for itself.
--       0 is to look and never write, -1 to give one charge back
--
-- A key holds full_at, the instant at which its bucket is full again, in
-- microseconds of Redis' clock, and expires in the millisecond after it.
--
-- Returns the deficit found in each bucket, before the call: a number for one
-- key, a list for several. How many calls were granted follows from it by the
-- same arithmetic:
--
--     granted = min(wanted, floor((capacity - deficit) / charge)) over all buckets
--
-- Of buckets that decide each for itself, one that cannot has the text of the error
-- in its place, and is not changed. An error in a list would not do: go-redis stops
-- reading there, and takes the rest for the reply to the next command.
--
-- All numbers are whole and below 2^53, so exact. They are written by
-- string.format, because Lua's own conversion keeps 14 digits; '%d' is the
-- fastest, and needs a Redis built for 64 bits.

local call, format, argv, n = redis.call, string.format, ARGV, #KEYS
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- A full_at further ahead than any charge can put it, a second to spare, was
-- written by a clock that has stepped back since. Unless it is replaced, denials
-- last for as long as the step.
local skew = 1000000

-- Each for itself. One bucket alone has no tables and no functions to pay for: a
-- tenth of the time.
if n == 1 or #argv == 3 * n then
  local ask, found = call, nil
  if n > 1 then ask, found = redis.pcall, {} end
  for i = 1, n do
    local key, capacity, charge, wanted = KEYS[i], argv[2 * i - 1] + 0, argv[2 * i], (argv[2 * n + i] or 1) + 0
    local full_at = ask('GET', key) or 0
    if found and not tonumber(full_at) then
      found[i] = full_at.err or 'WRONGTYPE the bucket holds no number'
    else
      local deficit, after = full_at - now, nil
      if deficit < 0 then
        deficit = 0
      elseif deficit > capacity then
        if deficit > capacity + skew and wanted > 0 then after = capacity end
        deficit = capacity
      end
      local granted = (capacity - deficit) / charge
      granted = granted < wanted and granted - granted % 1 or wanted
      if granted > 0 then
        after = deficit + granted * charge
      elseif granted < 0 and deficit > 0 then
        after = math.max(deficit + granted * charge, 0)
      end
      local saved
      if after then
        local up = now + after + 999
        saved = ask('SET', key, format('%d', now + after), 'PXAT', format('%d', (up - up % 1000) / 1000))
      end
      if not found then return deficit end
      found[i] = saved and saved.err or deficit
    end
  end
  return found
end

local function save(key, after)
  local up = now + after + 999
  call('SET', key, format('%d', now + after), 'PXAT', format('%d', (up - up % 1000) / 1000))
end

local wanted = (argv[2 * n + 1] or 1) + 0
local granted, deficits = wanted, {}
for i, key in ipairs(KEYS) do
  local capacity, charge = argv[2 * i - 1] + 0, argv[2 * i]
  local deficit = (call('GET', key) or 0) - now
  if deficit < 0 then
    deficit = 0
  elseif deficit > capacity then
    if deficit > capacity + skew and wanted > 0 then save(key, capacity) end
    deficit = capacity
  end
  deficits[i] = deficit
  granted = math.min(granted, math.floor((capacity - deficit) / charge))
end
for i, key in ipairs(KEYS) do
  if granted > 0 or granted < 0 and deficits[i] > 0 then
    save(key, math.max(deficits[i] + granted * argv[2 * i], 0))
  end
end
return deficits
