-- KEYS head, log; ARGV kind ('' any), before ('' end), limit, most entries to look at, generation ('' any)
-- nil | generation, where to go on (0: nothing is left), seqs, entries; newest first
local held = redis.call('HMGET', KEYS[1], 'g', 'l', 'D')
if not held[1] or held[3] or (ARGV[5] ~= '' and ARGV[5] ~= held[1]) then return nil end
local at = tonumber(held[2])
if ARGV[2] ~= '' then at = math.min(at, tonumber(ARGV[2])) end
local prefix = ARGV[1] .. '\0'
local limit, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local seqs, entries = {}, {}
while at > 0 and #entries < limit and most > 0 do
    local from = math.max(0, at - math.min(100, most))
    local page = redis.call('LRANGE', KEYS[2], from, at - 1)
    for n = #page, 1, -1 do
        if #entries == limit then break end
        at = from + n - 1
        if ARGV[1] == '' or string.sub(page[n], 1, #prefix) == prefix then
            seqs[#seqs + 1] = text_of(at)
            entries[#entries + 1] = page[n]
        end
    end
    if #page == 0 then break end
    most = most - #page
end
return {held[1], text_of(at), seqs, entries}
