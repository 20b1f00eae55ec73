-- For people with psql: what the log says, beside the state. Nothing of holdall reads these.

-- An unsigned integer of n_bytes, big-endian.
CREATE FUNCTION agent_session_uint(p_data bytea, p_at integer, p_n_bytes integer) RETURNS numeric
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    total numeric := 0;
BEGIN
    FOR i IN 0 .. p_n_bytes - 1 LOOP
        total := total * 256 + get_byte(p_data, p_at + i);
    END LOOP;
    RETURN total;
END
$$;

CREATE FUNCTION agent_session_text(p_data bytea) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN convert_from(p_data, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    -- NUL and lone surrogates, which text cannot hold
    RETURN encode(p_data, 'escape');
END
$$;

-- IEEE 754; NaN and the infinities as text.
CREATE FUNCTION agent_session_float(p_data bytea, p_at integer, p_n_bytes integer) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    n_fraction integer := CASE p_n_bytes WHEN 4 THEN 23 ELSE 52 END;
    bias       integer := CASE p_n_bytes WHEN 4 THEN 127 ELSE 1023 END;
    bits       numeric := agent_session_uint(p_data, p_at, p_n_bytes);
    sign       integer := CASE WHEN get_byte(p_data, p_at) >= 128 THEN -1 ELSE 1 END;
    exponent   integer;
    fraction   double precision;
BEGIN
    exponent := mod(div(bits, 2::numeric ^ n_fraction), 2 * bias + 2);
    fraction := mod(bits, 2::numeric ^ n_fraction)::double precision / 2::double precision ^ n_fraction;
    IF exponent = 2 * bias + 1 THEN
        RETURN to_jsonb(CASE WHEN fraction > 0 THEN 'NaN' WHEN sign < 0 THEN '-Infinity' ELSE 'Infinity' END);
    ELSIF exponent = 0 THEN
        RETURN to_jsonb(sign * fraction * 2::double precision ^ (1 - bias));
    END IF;
    RETURN to_jsonb(sign * (1 + fraction) * 2::double precision ^ (exponent - bias));
END
$$;

-- The MessagePack value that begins at p_at, as JSON, and where the next one begins.
CREATE FUNCTION agent_session_msgpack(p_data bytea, p_at integer, OUT value jsonb, OUT next_at integer)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    mark  integer := get_byte(p_data, p_at);
    size  integer;
    width integer;
    item  record;
    name  text;
BEGIN
    next_at := p_at + 1;
    IF mark < 128 THEN
        value := to_jsonb(mark);
    ELSIF mark >= 224 THEN
        value := to_jsonb(mark - 256);
    ELSIF mark = 192 THEN
        value := 'null';
    ELSIF mark IN (194, 195) THEN
        value := to_jsonb(mark = 195);
    ELSIF mark IN (202, 203) THEN
        width := CASE mark WHEN 202 THEN 4 ELSE 8 END;
        value := agent_session_float(p_data, next_at, width);
        next_at := next_at + width;
    ELSIF mark BETWEEN 204 AND 211 THEN
        width := 1 << ((mark - 204) % 4);
        value := to_jsonb(agent_session_uint(p_data, next_at, width)
            - CASE WHEN mark >= 208 AND get_byte(p_data, next_at) >= 128 THEN 256::numeric ^ width ELSE 0 END);
        next_at := next_at + width;
    ELSE
        -- a length comes first: in the mark itself, or in the bytes behind it
        width := CASE
            WHEN mark IN (196, 199, 217) THEN 1
            WHEN mark IN (197, 200, 218, 220, 222) THEN 2
            WHEN mark IN (198, 201, 219, 221, 223) THEN 4
            ELSE 0
        END;
        size := CASE
            WHEN width > 0 THEN agent_session_uint(p_data, next_at, width)
            WHEN mark < 144 THEN mark - 128
            WHEN mark < 160 THEN mark - 144
            WHEN mark < 192 THEN mark - 160
            ELSE 1 << (mark - 212)
        END;
        next_at := next_at + width;
        IF mark BETWEEN 160 AND 191 OR mark BETWEEN 217 AND 219 THEN
            value := to_jsonb(agent_session_text(substr(p_data, next_at + 1, size)));
            next_at := next_at + size;
        ELSIF mark BETWEEN 196 AND 198 THEN
            value := to_jsonb(substr(p_data, next_at + 1, size)::text);
            next_at := next_at + size;
        ELSIF mark BETWEEN 199 AND 201 OR mark BETWEEN 212 AND 216 THEN
            value := jsonb_build_object('ext', get_byte(p_data, next_at), 'data', substr(p_data, next_at + 2, size)::text);
            next_at := next_at + 1 + size;
        ELSIF mark BETWEEN 144 AND 159 OR mark IN (220, 221) THEN
            value := '[]';
            FOR i IN 1 .. size LOOP
                item := agent_session_msgpack(p_data, next_at);
                value := value || jsonb_build_array(item.value);
                next_at := item.next_at;
            END LOOP;
        ELSE
            value := '{}';
            FOR i IN 1 .. size LOOP
                item := agent_session_msgpack(p_data, next_at);
                name := coalesce(item.value #>> '{}', 'null');
                item := agent_session_msgpack(p_data, item.next_at);
                value := value || jsonb_build_object(name, item.value);
                next_at := item.next_at;
            END LOOP;
        END IF;
    END IF;
END
$$;

-- A log entry as JSON: of MessagePack its value (behind the schema version), JSON as it is, and of anything else what it is.
CREATE FUNCTION agent_session_entry(p_data bytea) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    mark integer;
BEGIN
    mark := get_byte(p_data, 0);
    IF mark = 193 THEN
        RETURN to_jsonb(format('(%s, %s bytes)', CASE chr(get_byte(p_data, 1)) WHEN 'z' THEN 'compressed' ELSE 'encrypted' END,
            length(p_data)));
    ELSIF mark = 123 THEN
        RETURN convert_from(p_data, 'UTF8')::jsonb;
    ELSIF mark = 146 THEN
        RETURN (agent_session_msgpack(p_data, 0)).value -> 1;
    END IF;
    RETURN (agent_session_msgpack(p_data, 0)).value;
EXCEPTION WHEN OTHERS THEN
    RETURN to_jsonb(format('(%s bytes that are neither MessagePack nor JSON)', length(p_data)));
END
$$;

CREATE VIEW agent_session_messages AS
SELECT
    s.session_id, s.user_id, s.status, e.seq, e.kind,
    x.entry ->> 'role' AS role,
    CASE jsonb_typeof(x.entry) WHEN 'object' THEN x.entry ->> 'content' ELSE x.entry #>> '{}' END AS content,
    x.entry,
    s.state, s.version, s.updated_at
FROM agent_sessions s
JOIN agent_session_log e ON e.log_id = s.log_id
CROSS JOIN LATERAL (SELECT agent_session_entry(e.data) AS entry) x
WHERE NOT s.is_deleted AND (s.expires_at IS NULL OR s.expires_at > now());

COMMENT ON VIEW agent_session_messages IS 'Each log entry beside its session, for people: SELECT seq, role, content FROM agent_session_messages WHERE session_id = ... ORDER BY seq.';
