-- KEYS lock; ARGV token, ttl_ms: let the lease end later, if the token still holds it
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
