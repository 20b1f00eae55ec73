-- KEYS head, epoch; ARGV name, value, fresh epoch, epoch ttl_ms
-- 1 if the record does not carry the tag: whoever was about to write it so must enter it again, which the epoch makes sure of
local held = redis.call('HMGET', KEYS[1], 't', 'D')
if held[1] and not held[2] and cjson.decode(held[1])[ARGV[1]] == ARGV[2] then return 0 end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
return 1
