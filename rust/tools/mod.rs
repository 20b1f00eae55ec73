//! Fit a list of tool schemas into a budget.
