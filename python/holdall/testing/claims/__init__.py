"""The claims of `StoreConformance`, one file per subject."""
