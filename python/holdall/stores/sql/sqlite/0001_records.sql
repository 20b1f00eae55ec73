-- A record is a row, and so is the tombstone that a delete leaves (is_deleted = 1): one key, one row, one lock.
CREATE TABLE records (
    id          INTEGER PRIMARY KEY,
    key         TEXT NOT NULL UNIQUE,
    generation  TEXT NOT NULL,
    number      INTEGER NOT NULL,
    head_format TEXT NOT NULL,
    head        BLOB NOT NULL,
    log_len     INTEGER NOT NULL,
    expires_at  REAL,
    tags        TEXT NOT NULL,
    fence       INTEGER,
    ops         TEXT NOT NULL,
    is_deleted  INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX records_expires_at ON records (expires_at) WHERE expires_at IS NOT NULL;

-- pos = records.id * 2^32 + seq: one btree in order of record and seq. A composite key would need a second btree; WITHOUT ROWID
-- takes 3.9 times the bytes, since every entry over 1 kB spills to a page of its own.
CREATE TABLE log (
    pos  INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    data BLOB NOT NULL
);

CREATE TABLE tags (
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    record INTEGER NOT NULL,
    PRIMARY KEY (name, value, record)
) WITHOUT ROWID;
