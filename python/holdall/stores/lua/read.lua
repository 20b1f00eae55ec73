-- KEYS head, log; ARGV log_from
-- nil | generation number format data length tags ends entries
local held = redis.call('HMGET', KEYS[1], 'g', 'n', 'f', 'd', 'l', 't', 'D')
if not held[1] or held[7] then return nil end
return {held[1], held[2], held[3], held[4], held[5], held[6], text_of(redis.call('PEXPIRETIME', KEYS[1])),
    redis.call('LRANGE', KEYS[2], ARGV[1], -1)}
