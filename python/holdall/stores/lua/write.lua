-- KEYS head, log, epoch
-- ARGV expect, generation, number, fresh, format, data, keep, ttl_ms, tags, fence, op, guarantee, epoch seen, entries...
-- 'ok' generation number old_tags | 'conflict' generation number | 'stale' generation number fence
-- | 'index' epoch tags ends: write the index entries first, then call again with a guarantee; nothing was changed
local head, log = KEYS[1], KEYS[2]
local expect, fresh, keep, ttl, fence, op = ARGV[1], ARGV[4], ARGV[7], ARGV[8], ARGV[10], ARGV[11]
local held = redis.call('HMGET', head, 'g', 'n', 'l', 't', 'F', 'o', 'D', 'i')
local ops, is_live = held[6], held[1] and not held[7]

local answer = answer_of(ops, op)
if answer then return answer end
local generation, number = is_live and held[1] or '', is_live and held[2] or ''
if held[5] and (fence == '' or fence < held[5]) then
    return {'stale', generation, number, held[5]}
end
if (expect == 'absent' and is_live)
    or (expect == 'version' and not (is_live and generation == ARGV[2] and number == ARGV[3])) then
    return {'conflict', generation, number}
end

local tags = ARGV[9] ~= '' and ARGV[9] or (is_live and held[4] or '{}')
local ends = ttl ~= '' and now_ms() + tonumber(ttl) or nil
local guarantee = ''
if tags ~= '{}' then
    if is_live and held[4] == tags and covers(held[8], ends) then
        guarantee = held[8]
    else
        local epoch = redis.call('GET', KEYS[3]) or ''
        if not covers(ARGV[12], ends) or ARGV[13] ~= epoch then
            return {'index', epoch, tags, ends and text_of(ends) or ''}
        end
        guarantee = ARGV[12]
    end
end
local refused = check_allowed({'HSET', head, 'g', '0'}, {'RPUSH', log, ''}, {'LTRIM', log, '0', '0'}, {'DEL', log},
    {'PEXPIREAT', head, '1'}, {'PERSIST', head})
if refused then return refused end

local length = 0
if is_live then
    number = number + 1
    length = tonumber(held[3])
    if keep ~= '' and tonumber(keep) < length then
        length = tonumber(keep)
        if length == 0 then
            redis.call('DEL', log)
        else
            redis.call('LTRIM', log, 0, length - 1)
        end
    end
else
    generation, number = fresh, 1
    redis.call('DEL', log)
end
-- the log first: if its key holds something else, this fails and the head is as it was
for from = 14, #ARGV, 1000 do
    redis.call('RPUSH', log, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
number = text_of(number)
redis.call('HSET', head, 'g', generation, 'n', number, 'f', ARGV[5], 'd', ARGV[6], 'l', length + #ARGV - 13, 't', tags,
    'o', remember(ops, op, generation, number), 'i', guarantee)
if held[7] then redis.call('HDEL', head, 'D') end
if fence ~= '' then redis.call('HSET', head, 'F', fence) end
set_end(head, ends)
set_end(log, ends)
return {'ok', generation, number, is_live and held[4] ~= tags and held[4] or ''}
