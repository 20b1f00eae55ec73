-- KEYS head, log; ARGV generation, number, fence, op, retention_ms
-- 'ok' tags | 'none' | 'conflict' generation number | 'stale' generation number fence
local head, log = KEYS[1], KEYS[2]
local generation, fence, op = ARGV[1], ARGV[3], ARGV[4]
local held = redis.call('HMGET', head, 'g', 'n', 't', 'F', 'o', 'D', 'p')
if answer_of(held[7], held[5], op) then return {'ok', '{}'} end
if not held[1] or held[6] then return {'none'} end
if held[4] and (fence == '' or fence < held[4]) then
    return {'stale', held[1], held[2], held[4]}
end
if generation ~= '' and (generation ~= held[1] or ARGV[2] ~= held[2]) then
    return {'conflict', held[1], held[2]}
end
if is_refused('HSET', head, 'g', '0') then return refusal('HSET') end
if is_refused('PEXPIREAT', head, '1') then return refusal('PEXPIREAT') end
local recent, ops = remember(held[7], held[5], op, held[1], held[2])
ops = ops or held[5]
redis.call('DEL', head, log)
fence = fence ~= '' and fence or held[4]
-- what has nothing to remember leaves nothing: its version cannot come back, since generations are drawn
if fence or recent ~= '' or ops then
    redis.call('HSET', head, 'g', held[1], 'n', held[2], 'p', recent, 'o', ops or '', 'D', '1')
    if fence then redis.call('HSET', head, 'F', fence) end
    redis.call('PEXPIREAT', head, text_of(now_ms() + tonumber(ARGV[5])))
end
return {'ok', held[3]}
