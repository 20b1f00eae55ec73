-- KEYS index; ARGV member, until_s, nonce, never_s, skew_s, nonces per second
-- Enter a member until until_s. Its score says until when it surely stands, and is another at every call, so that a cleaner
-- which looked before cannot remove what was entered since.
local index, member, until_s, never_s = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local width = tonumber(ARGV[6])
local is_new = redis.call('EXISTS', index) == 0
local held = redis.call('ZSCORE', index, member)
if held then until_s = math.max(until_s, math.floor(tonumber(held) / width)) end
local score = until_s * width + tonumber(ARGV[3])
if held and tonumber(held) == score then score = score + 1 end
redis.call('ZADD', index, text_of(score), member)
-- a record ends before its entries do: these are of nobody, even if the record's node is late by skew_s
redis.call('ZREMRANGEBYSCORE', index, '-inf', text_of((math.floor(now_ms() / 1000) - tonumber(ARGV[5])) * width))
if until_s >= never_s then
    redis.call('PERSIST', index)
elseif is_new then
    redis.call('EXPIREAT', index, text_of(until_s))
elseif redis.call('TTL', index) >= 0 then
    redis.call('EXPIREAT', index, text_of(until_s), 'GT')
end
return 1
