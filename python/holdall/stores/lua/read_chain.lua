-- KEYS head, log; ARGV most records, what the server's keys begin with, key
-- for each record from the newest on: key generation number format data length tags ends entries
local chain = {}
local head, log, key, ends = KEYS[1], KEYS[2], ARGV[3], -1
while #chain < tonumber(ARGV[1]) do
    local held = redis.call('HMGET', head, 'g', 'n', 'f', 'd', 'l', 't', 'D')
    if not held[1] or held[7] then break end
    local entries = {}
    if ends ~= 0 then entries = redis.call('LRANGE', log, 0, ends < 0 and -1 or ends - 1) end
    chain[#chain + 1] = {key, held[1], held[2], held[3], held[4], held[5], held[6],
        text_of(redis.call('PEXPIRETIME', head)), entries}
    local tags = cjson.decode(held[6])
    local slots = tags['base_slots']
    if not slots then break end
    ends = tonumber(tags['base_at'])
    -- a copy where there is one, else the base
    local kept = '~kept/' .. key
    local prefix = ARGV[2] .. ':{' .. string.sub(slots, 17) .. '}:'
    if redis.call('HEXISTS', prefix .. 'h:' .. kept, 'g') == 1
        and redis.call('HEXISTS', prefix .. 'h:' .. kept, 'D') == 0 then
        key = kept
    else
        key = tags['base']
        prefix = ARGV[2] .. ':{' .. string.sub(slots, 1, 16) .. '}:'
    end
    head, log = prefix .. 'h:' .. key, prefix .. 'l:' .. key
end
return chain
