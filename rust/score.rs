//! Type weight x recency x relevance.
