-- KEYS head, log, epoch; ARGV ttl_ms, op, guarantee, epoch seen
-- 'ok' | 'none' | 'index' epoch tags ends
local head, log = KEYS[1], KEYS[2]
local held = redis.call('HMGET', head, 'g', 'n', 't', 'o', 'D', 'i', 'p')
if answer_of(held[7], held[4], ARGV[2]) then return {'ok'} end
if not held[1] or held[5] then return {'none'} end
local ends = ARGV[1] ~= '' and now_ms() + tonumber(ARGV[1]) or nil
local guarantee = held[6]
if held[3] ~= '{}' and not covers(guarantee, ends) then
    local epoch = redis.call('GET', KEYS[3]) or ''
    if not covers(ARGV[3], ends) or ARGV[4] ~= epoch then
        return {'index', epoch, held[3], ends and text_of(ends) or ''}
    end
    guarantee = ARGV[3]
end
local refused = is_end_refused(head, ends)
if refused then return refused end
local recent, ops = remember(held[7], held[4], ARGV[2], held[1], held[2])
redis.call('HSET', head, 'i', guarantee, 'p', recent)
if ops then redis.call('HSET', head, 'o', ops) end
set_end(head, ends)
set_end(log, ends)
return {'ok'}
