-- What a PgVectorMemory keeps. Run under a lock, any number of times; {p} is the schema's prefix.
CREATE TABLE IF NOT EXISTS {p}memory_documents (
    namespace text NOT NULL,
    id text NOT NULL,
    user_id text,
    text text NOT NULL,
    metadata jsonb NOT NULL,
    -- floats of the vector; an index is made for one length
    dims integer,
    embedding vector,
    -- the inverted index of BM25: hashes of the text's stemmed terms, how often each occurs, and how many there are
    terms bigint[] NOT NULL,
    counts integer[] NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX IF NOT EXISTS memory_documents_user ON {p}memory_documents (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS memory_documents_terms ON {p}memory_documents USING gin (terms);
CREATE INDEX IF NOT EXISTS memory_documents_metadata ON {p}memory_documents USING gin (metadata jsonb_path_ops);
