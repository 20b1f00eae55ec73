-- A write that meets another version brings the record along, in one round trip, and holds up nobody.

-- The version at which the log was last cut, so that who knows its beginning from a later version need not read it again. Null:
-- not known, in rows from before this column.
ALTER TABLE agent_sessions ADD COLUMN cut_at bigint;

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
            ops, created_at, updated_at, expires_at, cut_at
        )
        VALUES (
            hash, p_session_id, p_tags ->> 'user_id', p_tags ->> 'status', p_state, p_head, p_format, 1, p_fresh, n_added,
            coalesce(p_tags, '{}'), p_fence, agent_session_remember('', p_op, p_fresh, 1), moment, moment, ends, 1
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

-- As update_session at a version; where another is there, outcome is 'conflict' and the record comes along, its log from
-- p_log_from on, or all of it if that beginning is not as it was at the version that was expected; log_start says which.
CREATE FUNCTION step_session(
    p_session_id text,
    p_state      jsonb,
    p_head       bytea,
    p_format     text,
    p_generation text,
    p_version    bigint,
    p_kinds      text[],
    p_datas      bytea[],
    p_keep       bigint,
    p_ttl_s      double precision,
    p_tags       jsonb,
    p_fence      bigint,
    p_op         text,
    p_sync       boolean,
    p_log_from   bigint,
    OUT outcome     text,
    OUT generation  text,
    OUT version     bigint,
    OUT fence       bigint,
    OUT state       jsonb,
    OUT head        bytea,
    OUT head_format text,
    OUT log_len     bigint,
    OUT tags        jsonb,
    OUT expires_at  double precision,
    OUT log_start   bigint,
    OUT kinds       text[],
    OUT datas       bytea[]
)
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    SELECT u.outcome, u.generation, u.version, u.fence INTO outcome, generation, version, fence
    FROM update_session(
        p_session_id, p_state, p_head, p_format, 'version', p_generation, p_version, NULL, p_kinds, p_datas, p_keep, p_ttl_s,
        p_tags, p_fence, p_op, p_sync
    ) u;
    IF outcome <> 'conflict' OR version IS NULL THEN
        RETURN;
    END IF;
    -- a statement of its own, so that it sees what the one above waited for; and one, so that head and log are of one instant
    SELECT
        s.generation, s.version, s.state, s.head, s.head_format, s.log_len, s.tags,
        extract(epoch FROM s.expires_at)::double precision, b.log_start, l.kinds, l.datas
    INTO generation, version, state, head, head_format, log_len, tags, expires_at, log_start, kinds, datas
    FROM agent_sessions s
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN s.generation = p_generation AND s.cut_at <= p_version AND s.log_len >= p_log_from THEN p_log_from ELSE 0
        END AS log_start
    ) b
    LEFT JOIN LATERAL (
        SELECT array_agg(e.kind ORDER BY e.seq) AS kinds, array_agg(e.data ORDER BY e.seq) AS datas
        FROM agent_session_log e WHERE e.log_id = s.log_id AND e.seq >= b.log_start
    ) l ON true
    WHERE s.key_hash = sha256(convert_to(p_session_id, 'UTF8'))
        AND NOT s.is_deleted AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp());
END
$$;
