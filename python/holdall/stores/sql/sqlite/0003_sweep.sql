-- When to look next whether a record has ended: never later than it ends, and often earlier. A sliding expiry moves with every
-- write; its index was another page to write each time, where this one stays until the sweeper comes by and moves it.
ALTER TABLE records ADD COLUMN sweep_at REAL;
UPDATE records SET sweep_at = expires_at;
DROP INDEX records_expires_at;
CREATE INDEX records_sweep_at ON records (sweep_at) WHERE sweep_at IS NOT NULL;
