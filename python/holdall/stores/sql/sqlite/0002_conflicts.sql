-- The number of the write that last cut the log, so that who knows its beginning from a later one need not read it again. Null:
-- not known, in rows from before this column.
ALTER TABLE records ADD COLUMN cut_at INTEGER;
