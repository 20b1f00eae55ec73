//! Lexical relevance of many texts to a query (BM25).
