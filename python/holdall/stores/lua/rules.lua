-- Shared by all scripts. A record is a hash and a list under one {tag}: g generation, n number, f format and d data of the
-- head, l length of the log, t tags, F fence, p and o calls remembered, i until when its index entries surely stand, c the number of the
-- write that last cut the log.
-- A tombstone is the hash with D and what must be remembered: F, p and o.
-- A call remembered is the 12 bytes of its token, the generation and the number that it gave, the latter as a double: 36 bytes.
local OP_BYTES = 36

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Numbers leave as text: a double would come back as an integer of the wrong width.
local function text_of(number)
    return string.format('%.0f', number)
end

local function answer_in(calls, op)
    local at = string.find(calls, op, 1, true)
    while at and (at - 1) % OP_BYTES ~= 0 do at = string.find(calls, op, at + 1, true) end
    if not at then return nil end
    return {'ok', string.sub(calls, at + 12, at + 27), text_of((struct.unpack('>d', calls, at + 28))), ''}, at
end

-- The answer that an earlier call with this token gave, or nil: of the last 32, newest first in `recent` and then `ops`.
local function answer_of(recent, ops, op)
    if op == '' then return nil end
    local answer = recent and answer_in(recent, op)
    if answer or not ops then return answer end
    local older, at = answer_in(ops, op)
    if older and at + #(recent or '') <= OP_BYTES * 32 then return older end
    return nil
end

-- Add a call to those remembered, and return them as they are then, the older only if they change. The eighth moves the recent ones
-- to the others, so that seven of eight calls write, and replicate, a few hundred bytes and not all.
local function remember(recent, ops, op, generation, number)
    if op == '' then return recent or '', nil end
    recent = op .. generation .. struct.pack('>d', number) .. (recent or '')
    if #recent < OP_BYTES * 8 then return recent, nil end
    return '', string.sub(recent .. (ops or ''), 1, OP_BYTES * 32)
end

-- All or nothing: what is not allowed is refused before the first write, since a script is not rolled back.
local function is_refused(...)
    return redis.acl_check_cmd and not redis.acl_check_cmd(...)
end

local function refusal(command)
    return redis.error_reply('NOPERM the store needs ' .. command)
end

-- Whether index entries that stand until `guarantee` (ms, 'inf', or false) cover a record that ends at `ends` (ms, or nil).
local function covers(guarantee, ends)
    if not guarantee or guarantee == '' then return false end
    return guarantee == 'inf' or (ends ~= nil and ends <= tonumber(guarantee))
end

local function is_end_refused(key, ends)
    if ends then return is_refused('PEXPIREAT', key, '1') and refusal('PEXPIREAT') end
    return is_refused('PERSIST', key) and refusal('PERSIST')
end

local function set_end(key, ends)
    if ends then
        redis.call('PEXPIREAT', key, text_of(ends))
    else
        redis.call('PERSIST', key)
    end
end

