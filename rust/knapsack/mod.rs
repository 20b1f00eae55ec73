//! Choose items, or renditions, within a budget.
