-- A step writes its row in place: none of its columns that an index holds changes, so that the indexes are left alone and the room of
-- the version before is taken again without a vacuum. After 500 steps a session's row had left 650 kB behind, for 1.6 kB of its own.

-- When to look next whether a record has ended: never later than it ends, and often earlier, since a sliding expiry moves with
-- every write and this does not. The sweeper moves it.
ALTER TABLE agent_sessions ADD COLUMN sweep_at timestamptz;
UPDATE agent_sessions SET sweep_at = expires_at WHERE expires_at IS NOT NULL;
DROP INDEX agent_sessions_expires_at;
CREATE INDEX agent_sessions_sweep_at ON agent_sessions (sweep_at) WHERE sweep_at IS NOT NULL;
COMMENT ON COLUMN agent_sessions.sweep_at IS 'When the sweeper looks at it next; who sets expires_at by hand to an earlier time sets this too.';

-- Room on each page for the next version of some of its rows.
ALTER TABLE agent_sessions SET (fillfactor = 70);

-- The compare-and-swap: head, log, tags, expiry, fence and op_id change together, or nothing does, in one call.
--   p_expect   'any', 'absent', or 'version' with p_generation and p_version
--   p_fresh    the generation to take if this call creates the record
--   p_keep     entries of the log to keep before appending; null: all
--   p_ttl_s    seconds until expiry by this server's clock; null: never
--   p_tags     null leaves them, an object replaces them
--   p_sync     whether the commit waits for the disk
-- outcome: 'ok' with the version written; 'conflict' with the version that is there, null if none; 'stale' with the fence seen.
CREATE OR REPLACE FUNCTION update_session(
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
                expires_at = clock_timestamp() + p_ttl_s * interval '1 second',
                sweep_at = least(s.sweep_at, clock_timestamp() + p_ttl_s * interval '1 second')
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
    -- Somebody else was faster: said without a lock, since one would make the commit of this call wait for the disk.
    IF p_expect = 'version' THEN
        SELECT s.generation, s.version, s.fence, s.ops, s.is_deleted, s.expires_at INTO before
        FROM agent_sessions s WHERE s.key_hash = hash;
        IF FOUND AND NOT before.is_deleted AND (before.expires_at IS NULL OR before.expires_at > clock_timestamp())
            AND (before.generation, before.version) IS DISTINCT FROM (p_generation, p_version)
            AND (before.fence IS NULL OR before.fence <= p_fence)
            AND (p_op IS NULL OR position(p_op IN before.ops) = 0)
        THEN
            outcome := 'conflict';
            generation := before.generation;
            version := before.version;
            RETURN;
        END IF;
    END IF;
    LOOP
        SELECT s.generation, s.version, s.log_id, s.log_len, s.tags, s.fence, s.ops, s.is_deleted, s.expires_at,
            s.cut_at
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
            ops, created_at, updated_at, expires_at, sweep_at, cut_at
        )
        VALUES (
            hash, p_session_id, p_tags ->> 'user_id', p_tags ->> 'status', p_state, p_head, p_format, 1, p_fresh, n_added,
            coalesce(p_tags, '{}'), p_fence, agent_session_remember('', p_op, p_fresh, 1), moment, moment, ends, ends, 1
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
            before.cut_at := 1;
            p_tags := coalesce(p_tags, '{}');
        ELSE
            version := version + 1;
            kept := least(before.log_len, p_keep);
            IF kept < before.log_len THEN
                DELETE FROM agent_session_log l WHERE l.log_id = log AND l.seq >= kept;
                before.cut_at := version;
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
            expires_at = ends,
            sweep_at = least(s.sweep_at, ends),
            cut_at = before.cut_at
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

-- Set the expiry without a new version; whether there was such a record.
CREATE OR REPLACE FUNCTION touch_session(p_session_id text, p_ttl_s double precision, p_op text, p_sync boolean DEFAULT true)
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
        sweep_at = least(s.sweep_at, moment + p_ttl_s * interval '1 second'),
        ops = agent_session_remember(before.ops, p_op, before.generation, before.version)
    WHERE s.key_hash = hash;
    RETURN true;
END
$$;

-- Delete, leaving a tombstone with fence and op_ids for p_retention_s. outcome: 'ok', 'none', 'conflict', 'stale'.
CREATE OR REPLACE FUNCTION delete_session(
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
        expires_at = moment + p_retention_s * interval '1 second',
        sweep_at = least(s.sweep_at, moment + p_retention_s * interval '1 second')
    WHERE s.key_hash = hash;
    outcome := 'ok';
END
$$;

-- Look at up to p_most records and tombstones that may have ended, the longest due first, and free those that have: how many were
-- due, and how many of them were freed. Rows that others hold are left for the next time, so that it never waits for a write.
-- Reads never see what has ended, swept or not.
CREATE FUNCTION sweep_due(p_most integer, OUT due integer, OUT freed integer)
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    WITH looked_at AS (
        SELECT s.key_hash, s.log_id, coalesce(s.expires_at <= clock_timestamp(), false) AS has_ended FROM agent_sessions s
        WHERE s.sweep_at <= clock_timestamp()
        ORDER BY s.sweep_at LIMIT p_most
        FOR UPDATE SKIP LOCKED
    ), later AS (
        UPDATE agent_sessions s SET sweep_at = s.expires_at FROM looked_at l WHERE s.key_hash = l.key_hash AND NOT l.has_ended
    ), logs AS (
        DELETE FROM agent_session_log e USING looked_at l WHERE e.log_id = l.log_id AND l.has_ended
    ), tags AS (
        DELETE FROM agent_session_tags t USING agent_sessions s, looked_at l, jsonb_each_text(s.tags) one
        WHERE l.has_ended AND s.key_hash = l.key_hash AND t.name = one.key AND t.value = one.value
            AND t.key_hash = l.key_hash
    ), ended AS (
        DELETE FROM agent_sessions s USING looked_at l WHERE s.key_hash = l.key_hash AND l.has_ended
    )
    SELECT count(*), count(*) FILTER (WHERE l.has_ended) INTO due, freed FROM looked_at l;
END
$$;

-- As before, for workers of before: how many were freed.
CREATE OR REPLACE FUNCTION sweep_sessions(p_most integer DEFAULT 1000) RETURNS integer
    LANGUAGE sql
    SET search_path FROM CURRENT
    RETURN (SELECT d.freed FROM sweep_due(p_most) d);
