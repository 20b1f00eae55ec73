-- KEYS counter; ARGV "window" or "bucket", limit, per_us, burst, cost, least ttl_ms
-- whether it is allowed (1 or 0), what is left, microseconds until it would be allowed
local key, limit, per_us, burst, cost = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function live(us)
    redis.call('PEXPIRE', key, text_of(math.max(tonumber(ARGV[6]), math.ceil(us / 1000))))
end

if ARGV[1] == 'window' then
    local last = tonumber(redis.call('LINDEX', key, -1) or 0)
    now_us = math.max(now_us, last) -- a clock that was set back frees nothing
    while true do
        local first = redis.call('LINDEX', key, 0)
        if not first or tonumber(first) > now_us - per_us then break end
        redis.call('LPOP', key)
    end
    local used = redis.call('LLEN', key)
    if used + cost > limit then
        local frees = tonumber(redis.call('LINDEX', key, used + cost - limit - 1))
        return {0, limit - used, text_of(frees + per_us - now_us)}
    end
    for _ = 1, cost do redis.call('RPUSH', key, text_of(now_us)) end
    live(per_us)
    return {1, limit - used - cost, '0'}
end

local held = redis.call('HMGET', key, 't', 'a')
local tokens, at_us = tonumber(held[1] or burst), tonumber(held[2] or now_us)
now_us = math.max(now_us, at_us)
tokens = math.min(burst, tokens + (now_us - at_us) * limit / per_us)
local is_allowed = tokens >= cost
if is_allowed then
    tokens = tokens - cost
    redis.call('HSET', key, 't', string.format('%.17g', tokens), 'a', text_of(now_us))
    live(burst * per_us / limit)
    return {1, math.floor(tokens), '0'}
end
return {0, math.floor(tokens), text_of(math.ceil((cost - tokens) * per_us / limit))}
