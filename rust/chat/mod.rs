//! Chat formats in and out, groups, and what a message costs.
