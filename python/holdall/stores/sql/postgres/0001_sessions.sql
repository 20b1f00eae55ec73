-- One row is a record, or the tombstone that a delete leaves (is_deleted, no state). A row is locked by every write, so that
-- one key has one order of writes. Keys are found by their hash: a btree takes no text over 2704 bytes.
CREATE TABLE agent_sessions (
    key_hash    bytea PRIMARY KEY,
    session_id  text NOT NULL,
    user_id     text,
    status      text,
    state       jsonb,
    head        bytea,
    head_format text NOT NULL,
    version     bigint NOT NULL,
    generation  text NOT NULL,
    log_id      bigint GENERATED ALWAYS AS IDENTITY,
    log_len     bigint NOT NULL,
    tags        jsonb NOT NULL,
    fence       bigint,
    ops         text NOT NULL,
    is_deleted  boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    expires_at  timestamptz
);

COMMENT ON TABLE agent_sessions IS 'One row per session: what changes. What only grows is in agent_session_log.';
COMMENT ON COLUMN agent_sessions.state IS 'The head, where it is JSON; else it is in head, in the format that head_format names.';
COMMENT ON COLUMN agent_sessions.ops IS 'The last 32 calls that had an op_id, newest first: 24 hex of its hash, generation, version in hex.';

-- With the key's hash behind, so that a listing of one user goes on where its last page ended.
CREATE INDEX agent_sessions_user_id ON agent_sessions (user_id, key_hash) WHERE user_id IS NOT NULL;
CREATE INDEX agent_sessions_expires_at ON agent_sessions (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE agent_session_log (
    log_id bigint NOT NULL,
    seq    bigint NOT NULL,
    kind   text NOT NULL,
    data   bytea NOT NULL,
    PRIMARY KEY (log_id, seq)
);

-- Tags other than user_id, which has its column. Written only when tags change, which is rare: an index over the column `tags`
-- would be written with every step.
CREATE TABLE agent_session_tags (
    name     text NOT NULL,
    value    text NOT NULL,
    key_hash bytea NOT NULL,
    PRIMARY KEY (name, value, key_hash)
);

-- lz4 takes a third of the time of pglz on a head of 20 kB; a server built without it keeps its default.
DO $$
BEGIN
    ALTER TABLE agent_sessions ALTER COLUMN state SET COMPRESSION lz4, ALTER COLUMN head SET COMPRESSION lz4;
    ALTER TABLE agent_session_log ALTER COLUMN data SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value OR syntax_error THEN
    RAISE NOTICE 'this server has no lz4';
END
$$;

CREATE FUNCTION agent_session_key(p_session_id text) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256(convert_to(p_session_id, 'UTF8'));

-- The answer that an earlier call with this token gave, as (generation, version); no row if there was none.
CREATE FUNCTION agent_session_answer(p_ops text, p_op text, OUT generation text, OUT version bigint)
    LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    at integer := CASE WHEN p_op IS NULL THEN 0 ELSE position(p_op IN p_ops) END;
BEGIN
    IF at > 0 AND (at - 1) % 56 = 0 THEN
        generation := substr(p_ops, at + 24, 16);
        version := ('x' || substr(p_ops, at + 40, 16))::bit(64)::bigint;
    END IF;
END
$$;

CREATE FUNCTION agent_session_remember(p_ops text, p_op text, p_generation text, p_version bigint) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN p_op IS NULL THEN p_ops
        ELSE left(p_op || p_generation || lpad(to_hex(p_version), 16, '0') || p_ops, 56 * 32)
    END;

-- Bring agent_session_tags in line with a change of tags.
CREATE FUNCTION agent_session_retag(p_key_hash bytea, p_before jsonb, p_after jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM agent_session_tags t USING jsonb_each_text(p_before) b
    WHERE t.name = b.key AND t.value = b.value AND t.key_hash = p_key_hash
        AND p_after ->> b.key IS DISTINCT FROM b.value;
    INSERT INTO agent_session_tags (name, value, key_hash)
    SELECT a.key, a.value, p_key_hash FROM jsonb_each_text(p_after) a
    WHERE a.key <> 'user_id' AND p_before ->> a.key IS DISTINCT FROM a.value
    ON CONFLICT DO NOTHING;
END
$$;

-- The compare-and-swap: head, log, tags, expiry, fence and op_id change together, or nothing does, in one call.
--   p_expect   'any', 'absent', or 'version' with p_generation and p_version
--   p_fresh    the generation to take if this call creates the record
--   p_keep     entries of the log to keep before appending; null: all
--   p_ttl_s    seconds until expiry by this server's clock; null: never
--   p_tags     null leaves them, an object replaces them
--   p_sync     whether the commit waits for the disk
-- outcome: 'ok' with the version written; 'conflict' with the version that is there, null if none; 'stale' with the fence seen.
CREATE FUNCTION update_session(
    p_session_id text,
    p_state      jsonb,
    p_head       bytea,
    p_format     text,
    p_expect     text,
    p_generation text,
    p_version    bigint,
    p_fresh      text,
    p_kinds      text[] DEFAULT NULL,
    p_datas      bytea[] DEFAULT NULL,
    p_keep       bigint DEFAULT NULL,
    p_ttl_s      double precision DEFAULT NULL,
    p_tags       jsonb DEFAULT NULL,
    p_fence      bigint DEFAULT NULL,
    p_op         text DEFAULT NULL,
    p_sync       boolean DEFAULT true,
    OUT outcome    text,
    OUT generation text,
    OUT version    bigint,
    OUT fence      bigint
)
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    hash    bytea := sha256(convert_to(p_session_id, 'UTF8'));
    moment  timestamptz;
    ends    timestamptz;
    before  record;
    answer  record;
    log     bigint;
    kept    bigint := 0;
    n_added bigint := coalesce(cardinality(p_kinds), 0);
BEGIN
    PERFORM agent_session_commit(p_sync);
    -- The step of a session that nobody disturbs, in one statement; whatever does not fit it is looked at below.
    IF p_expect = 'version' AND p_keep IS NULL THEN
        WITH stepped AS (
            UPDATE agent_sessions s SET
                state = p_state,
                head = p_head,
                head_format = p_format,
                version = s.version + 1,
                log_len = s.log_len + n_added,
                fence = p_fence,
                ops = agent_session_remember(s.ops, p_op, p_generation, p_version + 1),
                updated_at = clock_timestamp(),
                expires_at = clock_timestamp() + p_ttl_s * interval '1 second'
            WHERE s.key_hash = hash AND s.version = p_version AND s.generation = p_generation AND NOT s.is_deleted
                AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
                AND (s.fence IS NULL OR s.fence <= p_fence)
                AND (p_tags IS NULL OR s.tags = p_tags)
                AND (p_op IS NULL OR position(p_op IN s.ops) = 0)
            RETURNING s.log_id, s.log_len - n_added AS kept
        ), appended AS (
            INSERT INTO agent_session_log (log_id, seq, kind, data)
            SELECT w.log_id, w.kept + u.n - 1, u.kind, u.data
            FROM stepped w, unnest(p_kinds, p_datas) WITH ORDINALITY AS u (kind, data, n)
        )
        SELECT w.log_id INTO log FROM stepped w;
        IF FOUND THEN
            outcome := 'ok';
            generation := p_generation;
            version := p_version + 1;
            RETURN;
        END IF;
    END IF;
    LOOP
        SELECT s.generation, s.version, s.log_id, s.log_len, s.tags, s.fence, s.ops, s.is_deleted, s.expires_at
        INTO before
        FROM agent_sessions s WHERE s.key_hash = hash FOR UPDATE;
        -- after the lock: a writer may have waited for it past the expiry
        moment := clock_timestamp();
        ends := moment + p_ttl_s * interval '1 second';
        EXIT WHEN FOUND;
        IF p_expect = 'version' THEN
            outcome := 'conflict';
            RETURN;
        END IF;
        INSERT INTO agent_sessions AS s (
            key_hash, session_id, user_id, status, state, head, head_format, version, generation, log_len, tags, fence,
            ops, created_at, updated_at, expires_at
        )
        VALUES (
            hash, p_session_id, p_tags ->> 'user_id', p_tags ->> 'status', p_state, p_head, p_format, 1, p_fresh, n_added,
            coalesce(p_tags, '{}'), p_fence, agent_session_remember('', p_op, p_fresh, 1), moment, moment, ends
        )
        ON CONFLICT (key_hash) DO NOTHING
        RETURNING s.log_id INTO log;
        IF FOUND THEN
            generation := p_fresh;
            version := 1;
            IF p_tags IS NOT NULL THEN
                PERFORM agent_session_retag(hash, '{}', p_tags);
            END IF;
        END IF;
        EXIT WHEN FOUND;
        -- another session created it in between: look again
    END LOOP;

    IF log IS NULL THEN
        log := before.log_id;
        IF before.expires_at <= moment THEN
            -- ended: nothing is known of it any more, but its row and its log are still here
            before.is_deleted := true;
            before.fence := NULL;
            before.ops := '';
        END IF;
        answer := agent_session_answer(before.ops, p_op);
        IF answer.generation IS NOT NULL THEN
            outcome := 'ok';
            generation := answer.generation;
            version := answer.version;
            RETURN;
        END IF;
        IF NOT before.is_deleted THEN
            generation := before.generation;
            version := before.version;
        END IF;
        IF before.fence IS NOT NULL AND (p_fence IS NULL OR p_fence < before.fence) THEN
            outcome := 'stale';
            fence := before.fence;
            RETURN;
        END IF;
        IF (p_expect = 'absent' AND version IS NOT NULL)
            OR (p_expect = 'version' AND (generation, version) IS DISTINCT FROM (p_generation, p_version))
        THEN
            outcome := 'conflict';
            RETURN;
        END IF;
        IF version IS NULL THEN
            DELETE FROM agent_session_log l WHERE l.log_id = log;
            generation := p_fresh;
            version := 1;
            p_tags := coalesce(p_tags, '{}');
        ELSE
            version := version + 1;
            kept := least(before.log_len, p_keep);
            IF kept < before.log_len THEN
                DELETE FROM agent_session_log l WHERE l.log_id = log AND l.seq >= kept;
            END IF;
        END IF;
        IF p_tags IS NOT NULL AND p_tags <> before.tags THEN
            PERFORM agent_session_retag(hash, before.tags, p_tags);
        END IF;
        p_tags := coalesce(p_tags, before.tags);
        UPDATE agent_sessions s SET
            user_id = p_tags ->> 'user_id',
            status = p_tags ->> 'status',
            state = p_state,
            head = p_head,
            head_format = p_format,
            version = update_session.version,
            generation = update_session.generation,
            log_len = kept + n_added,
            tags = p_tags,
            fence = coalesce(p_fence, before.fence),
            ops = agent_session_remember(before.ops, p_op, update_session.generation, update_session.version),
            is_deleted = false,
            created_at = CASE WHEN update_session.version = 1 THEN moment ELSE s.created_at END,
            updated_at = moment,
            expires_at = ends
        WHERE s.key_hash = hash;
    END IF;
    IF n_added > 0 THEN
        INSERT INTO agent_session_log (log_id, seq, kind, data)
        SELECT log, kept + u.n - 1, u.kind, u.data
        FROM unnest(p_kinds, p_datas) WITH ORDINALITY AS u (kind, data, n);
    END IF;
    outcome := 'ok';
END
$$;

-- Set how the commit of this transaction waits, if the server's default does otherwise; a stronger default is kept.
CREATE FUNCTION agent_session_commit(p_sync boolean) RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    IF p_sync AND current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    ELSIF NOT p_sync AND current_setting('synchronous_commit') <> 'off' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;

-- Set the expiry without a new version; whether there was such a record.
CREATE FUNCTION touch_session(p_session_id text, p_ttl_s double precision, p_op text, p_sync boolean DEFAULT true)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    hash   bytea := sha256(convert_to(p_session_id, 'UTF8'));
    moment timestamptz;
    before record;
    answer record;
BEGIN
    PERFORM agent_session_commit(p_sync);
    SELECT s.generation, s.version, s.ops, s.is_deleted, s.expires_at INTO before
    FROM agent_sessions s WHERE s.key_hash = hash FOR UPDATE;
    moment := clock_timestamp();
    IF NOT FOUND OR before.expires_at <= moment THEN
        RETURN false;
    END IF;
    answer := agent_session_answer(before.ops, p_op);
    IF answer.generation IS NOT NULL THEN
        RETURN true;
    END IF;
    IF before.is_deleted THEN
        RETURN false;
    END IF;
    UPDATE agent_sessions s SET
        expires_at = moment + p_ttl_s * interval '1 second',
        ops = agent_session_remember(before.ops, p_op, before.generation, before.version)
    WHERE s.key_hash = hash;
    RETURN true;
END
$$;

-- Delete, leaving a tombstone with fence and op_ids for p_retention_s. outcome: 'ok', 'none', 'conflict', 'stale'.
CREATE FUNCTION delete_session(
    p_session_id  text,
    p_generation  text,
    p_version     bigint,
    p_fence       bigint,
    p_op          text,
    p_retention_s double precision,
    p_sync        boolean DEFAULT true,
    OUT outcome    text,
    OUT generation text,
    OUT version    bigint,
    OUT fence      bigint
)
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    hash   bytea := sha256(convert_to(p_session_id, 'UTF8'));
    moment timestamptz;
    before record;
    answer record;
BEGIN
    PERFORM agent_session_commit(p_sync);
    SELECT s.generation, s.version, s.log_id, s.tags, s.fence, s.ops, s.is_deleted, s.expires_at INTO before
    FROM agent_sessions s WHERE s.key_hash = hash FOR UPDATE;
    moment := clock_timestamp();
    IF NOT FOUND OR before.expires_at <= moment THEN
        outcome := 'none';
        RETURN;
    END IF;
    answer := agent_session_answer(before.ops, p_op);
    IF answer.generation IS NOT NULL THEN
        outcome := 'ok';
        RETURN;
    END IF;
    IF before.is_deleted THEN
        outcome := 'none';
        RETURN;
    END IF;
    generation := before.generation;
    version := before.version;
    IF before.fence IS NOT NULL AND (p_fence IS NULL OR p_fence < before.fence) THEN
        outcome := 'stale';
        fence := before.fence;
        RETURN;
    END IF;
    IF p_generation IS NOT NULL AND (generation, version) IS DISTINCT FROM (p_generation, p_version) THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    DELETE FROM agent_session_log l WHERE l.log_id = before.log_id;
    PERFORM agent_session_retag(hash, before.tags, '{}');
    UPDATE agent_sessions s SET
        user_id = NULL,
        status = 'deleted',
        state = NULL,
        head = NULL,
        head_format = '',
        log_len = 0,
        tags = '{}',
        fence = coalesce(p_fence, before.fence),
        ops = agent_session_remember(before.ops, p_op, before.generation, before.version),
        is_deleted = true,
        updated_at = moment,
        expires_at = moment + p_retention_s * interval '1 second'
    WHERE s.key_hash = hash;
    outcome := 'ok';
END
$$;

-- Free up to p_most records and tombstones that have ended; how many that were. Rows that others hold are left for the next
-- time, so that it never waits for a write. Reads never see what has ended, swept or not.
CREATE FUNCTION sweep_sessions(p_most integer DEFAULT 1000) RETURNS integer
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    n integer;
BEGIN
    WITH ended AS (
        SELECT s.key_hash, s.log_id FROM agent_sessions s
        WHERE s.expires_at <= clock_timestamp()
        ORDER BY s.expires_at LIMIT p_most
        FOR UPDATE SKIP LOCKED
    ), logs AS (
        DELETE FROM agent_session_log l USING ended e WHERE l.log_id = e.log_id
    ), tags AS (
        DELETE FROM agent_session_tags t USING agent_sessions s, ended e, jsonb_each_text(s.tags) one
        WHERE s.key_hash = e.key_hash AND t.name = one.key AND t.value = one.value AND t.key_hash = e.key_hash
    )
    DELETE FROM agent_sessions s USING ended e WHERE s.key_hash = e.key_hash;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$$;
