-- Shared by all scripts. A record is a hash and a list under one {tag}: g generation, n number, f format and d data of the
-- head, l length of the log, t tags, F fence, p and o calls remembered, i until when its index entries surely stand, c the number of the
-- write that last cut the log.
-- A tombstone is the hash with D and what must be remembered: F, p and o.
local OP_CHARS = 56

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Numbers leave as text: a double would come back as an integer of the wrong width.
local function text_of(number)
    return string.format('%.0f', number)
end

-- The answer that an earlier call with this token gave, or nil: of the last 32, newest first in `recent` and then `ops`.
local function answer_of(recent, ops, op)
    if op == '' or not (recent or ops) then return nil end
    local every = (recent or '') .. (ops or '')
    local at = string.find(every, op, 1, true)
    if not at or (at - 1) % OP_CHARS ~= 0 or at > OP_CHARS * 32 then return nil end
    return {'ok', string.sub(every, at + 24, at + 39), text_of(tonumber(string.sub(every, at + 40, at + 55), 16)), ''}
end

-- Add a call to those remembered: what to set, a list of fields and values. The eighth moves the recent ones to the others, so
-- that seven of eight calls write, and replicate, a few hundred bytes and not all.
local function remember(recent, ops, op, generation, number)
    if op == '' then return {} end
    recent = op .. generation .. string.format('%016x', number) .. (recent or '')
    if #recent < OP_CHARS * 8 then return {'p', recent} end
    return {'p', '', 'o', string.sub(recent .. (ops or ''), 1, OP_CHARS * 32)}
end

-- All or nothing: what is not allowed is refused before the first write, since a script is not rolled back.
local function check_allowed(...)
    for _, command in ipairs({...}) do
        if redis.acl_check_cmd and not redis.acl_check_cmd(command[1], unpack(command, 2)) then
            return redis.error_reply('NOPERM the store needs ' .. command[1])
        end
    end
    return nil
end

-- Whether index entries that stand until `guarantee` (ms, 'inf', or false) cover a record that ends at `ends` (ms, or nil).
local function covers(guarantee, ends)
    if not guarantee or guarantee == '' then return false end
    return guarantee == 'inf' or (ends ~= nil and ends <= tonumber(guarantee))
end

local function set_end(key, ends)
    if ends then
        redis.call('PEXPIREAT', key, text_of(ends))
    else
        redis.call('PERSIST', key)
    end
end

