"""The statements of `PgVectorMemory`, with {p} for the schema's prefix."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Final

from holdall.semantic.rules import Condition, Where

SCHEMA: Final = (resources.files(__package__) / "pgvector.sql").read_text("utf-8")

PUT: Final = (
    "INSERT INTO {p}memory_documents (namespace, id, user_id, text, metadata, dims, embedding, terms, counts, length)"
    " VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, $7::text::vector, $8, $9, $10)"
    " ON CONFLICT (namespace, id) DO UPDATE SET user_id = excluded.user_id, text = excluded.text,"
    " metadata = excluded.metadata, dims = excluded.dims, embedding = excluded.embedding, terms = excluded.terms,"
    " counts = excluded.counts, length = excluded.length"
)
DIMS: Final = "SELECT dims FROM {p}memory_documents WHERE namespace = $1 AND dims IS NOT NULL LIMIT 1"
GET: Final = (
    "SELECT id, user_id, text, metadata::text, embedding::text FROM {p}memory_documents"
    " WHERE namespace = $1 AND id = ANY($2::text[])"
)
# Rows are locked in one order by every call, in which `PgVectorMemory` writes them too: else two calls could wait for each
# other.
_DROP = (
    "DELETE FROM {p}memory_documents WHERE (namespace, id) IN (SELECT namespace, id FROM {p}memory_documents WHERE %s"
    ' ORDER BY namespace COLLATE "C", id COLLATE "C" FOR UPDATE)'
)
DROP: Final = _DROP % "namespace = $1 AND id = ANY($2::text[])"
DROP_USER: Final = _DROP % "user_id = $1 AND ($2::text IS NULL OR namespace = $2)"
COUNT: Final = "SELECT count(*) FROM {p}memory_documents WHERE namespace = $1"

# BM25 as the native index has it: the same terms, k1 1.2, b .5, the statistics those of the whole namespace.
MATCHING: Final = (
    "WITH hits AS (SELECT d.id, d.length, t.term, t.tf FROM {p}memory_documents d,"
    " unnest(d.terms, d.counts) AS t(term, tf) WHERE d.namespace = $1 AND d.terms && $2::bigint[] AND t.term = ANY($2)),"
    " df AS (SELECT term, count(*) AS n FROM hits GROUP BY term),"
    " space AS (SELECT count(*) AS n, greatest(coalesce(avg(length), 0), 1) AS mean FROM {p}memory_documents"
    " WHERE namespace = $1),"
    " scores AS (SELECT h.id, sum(w.weight * ln(1 + (s.n - df.n + 0.5::float8) / (df.n + 0.5::float8))"
    " * h.tf / (h.tf + 1.2::float8 * (0.5::float8 + 0.5::float8 * h.length / s.mean::float8))) AS score"
    " FROM hits h JOIN df USING (term) JOIN unnest($2::bigint[], $3::integer[]) AS w(term, weight) USING (term)"
    " CROSS JOIN space s GROUP BY h.id)"
    " SELECT d.id, d.user_id, d.text, d.metadata::text, scores.score FROM scores"
    " JOIN {p}memory_documents d ON d.namespace = $1 AND d.id = scores.id WHERE true{where}"
    " ORDER BY scores.score DESC, d.id LIMIT $4"
)
OPERATORS: Final = {"cosine": "<=>", "dot": "<#>"}
_OPCLASSES: Final = {"cosine": "vector_cosine_ops", "dot": "vector_ip_ops"}


def nearest(metric: str, dims: int, where: str, *, by_index: bool) -> str:
    """Return the search by vector. Exact: an order that no index has, so that none is used."""
    distance = f"(d.embedding::vector({dims}) {OPERATORS[metric]} $2::text::vector({dims}))"
    score = f"1 - {distance}" if metric == "cosine" else f"-{distance}"
    order = distance if by_index else f"{distance} + 0"
    return (
        f"SELECT d.id, d.user_id, d.text, d.metadata::text, {score} AS score FROM {{p}}memory_documents d"
        f" WHERE d.namespace = $1 AND d.dims = {dims}{where} ORDER BY {order} LIMIT $3"
    )


def hnsw(metric: str, dims: int) -> str:
    """Return the statement that makes the index for vectors of one length."""
    return (
        f"CREATE INDEX IF NOT EXISTS memory_documents_hnsw_{metric}_{dims} ON {{p}}memory_documents"
        f" USING hnsw ((embedding::vector({dims})) {_OPCLASSES[metric]}) WHERE dims = {dims}"
    )


def conditions(where: Where, args: list[Any]) -> str:
    """Return a filter as SQL that begins with AND, its values added to `args`."""

    def arg(value: Any) -> str:
        args.append(value)
        return f"${len(args)}"

    clauses = [] if where.user_id is None else [f"d.user_id = {arg(where.user_id)}"]
    for condition in where.conditions:
        if condition.any_of is not None:
            wanted = [f"d.metadata @> {arg(json.dumps(one))}::text::jsonb" for one in _forms(condition)]
            clauses.append(f"({' OR '.join(wanted)})" if wanted else "false")
        for how, bound in condition.bounds.items():
            sign = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}[how]
            name = arg(condition.name)
            clauses.append(
                f"CASE WHEN jsonb_typeof(d.metadata -> {name}::text) = 'number'"
                f" THEN (d.metadata ->> {name}::text)::float8 {sign} {arg(float(bound))}::float8 END"
            )
    return "".join(f" AND {clause}" for clause in clauses)


def _forms(condition: Condition) -> list[dict[str, Any]]:
    """What metadata that meets it contains: the value, or a list with it."""
    forms: list[dict[str, Any]] = []
    for value in condition.any_of or ():
        forms.append({condition.name: value})
        if isinstance(value, str):
            forms.append({condition.name: [value]})
    return forms
