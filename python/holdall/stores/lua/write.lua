-- KEYS head, log, epoch
-- ARGV expect, generation, number, fresh, format, data, keep, ttl_ms, tags, fence, op, guarantee, epoch seen,
--   log_from ('' if the record is not wanted on a conflict), entries...
-- 'ok' generation number old_tags | 'conflict' generation number | 'stale' generation number fence
-- | 'conflict' generation number log_start format data length tags ends entries
-- | 'index' epoch tags ends: write the index entries first, then call again with a guarantee; nothing was changed
local head, log = KEYS[1], KEYS[2]
local expect, fresh, keep, ttl, fence, op = ARGV[1], ARGV[4], ARGV[7], ARGV[8], ARGV[10], ARGV[11]
local held = redis.call('HMGET', head, 'g', 'n', 'l', 't', 'F', 'o', 'D', 'i', 'p')
local is_live = held[1] and not held[7]

local answer = answer_of(held[9], held[6], op)
if answer then return answer end
local generation, number = is_live and held[1] or '', is_live and held[2] or ''
if held[5] and (fence == '' or fence < held[5]) then
    return {'stale', generation, number, held[5]}
end
if (expect == 'absent' and is_live)
    or (expect == 'version' and not (is_live and generation == ARGV[2] and number == ARGV[3])) then
    if ARGV[14] == '' or not is_live then return {'conflict', generation, number} end
    local rest = redis.call('HMGET', head, 'f', 'd', 'c')
    local start = ARGV[14]
    -- the beginning of the log is as the caller knows it, unless it was cut since
    if generation ~= ARGV[2] or not rest[3] or tonumber(rest[3]) > tonumber(ARGV[3])
        or tonumber(start) > tonumber(held[3]) then
        start = '0'
    end
    return {'conflict', generation, number, start, rest[1], rest[2], held[3], held[4],
        text_of(redis.call('PEXPIRETIME', head)), start ~= held[3] and redis.call('LRANGE', log, start, -1) or {}}
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
-- asked for what this call will do and no more; the first command to change something says by itself whether it may
local length = is_live and tonumber(held[3]) or 0
local kept = is_live and keep ~= '' and math.min(tonumber(keep), length) or length
local n_new = #ARGV - 14
local refused = is_end_refused(head, ends)
if refused then return refused end
if (n_new > 0 or kept < length or not is_live) and is_refused('HSET', head, 'g', '0') then return refusal('HSET') end
if n_new > 0 and (kept < length or not is_live) and is_refused('RPUSH', log, '') then return refusal('RPUSH') end
if held[7] and is_refused('HDEL', head, 'D') then return refusal('HDEL') end

local cut_at
if is_live then
    number = number + 1
    if kept < length then
        cut_at = number
        if kept == 0 then
            redis.call('DEL', log)
        else
            redis.call('LTRIM', log, 0, kept - 1)
        end
    end
else
    generation, number, cut_at = fresh, 1, 1
    redis.call('DEL', log)
end
-- the log first: if its key holds something else, this fails and the head is as it was
for from = 15, #ARGV, 1000 do
    redis.call('RPUSH', log, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
length = kept + n_new
number = text_of(number)
local recent, ops = remember(held[9], held[6], op, generation, number)
redis.call('HSET', head, 'n', number, 'f', ARGV[5], 'd', ARGV[6], 'l', length, 'p', recent)
if not is_live or held[4] ~= tags or held[8] ~= guarantee then
    redis.call('HSET', head, 'g', generation, 't', tags, 'i', guarantee)
end
if ops then redis.call('HSET', head, 'o', ops) end
if cut_at then redis.call('HSET', head, 'c', text_of(cut_at)) end
if held[7] then redis.call('HDEL', head, 'D') end
if fence ~= '' and fence ~= held[5] then redis.call('HSET', head, 'F', fence) end
set_end(head, ends)
if length > 0 then set_end(log, ends) end
return {'ok', generation, number, is_live and held[4] ~= tags and held[4] or ''}
