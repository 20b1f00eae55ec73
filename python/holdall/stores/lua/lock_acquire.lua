-- KEYS lock; ARGV token, ttl_ms
-- 1 if the token holds the lock now; the same token may ask again, as after a lost reply
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
