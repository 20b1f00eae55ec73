//! Required, optional, order, and why.
