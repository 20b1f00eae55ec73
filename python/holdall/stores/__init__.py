"""Where records are held. One file per backend; none is imported here, since each may need its own driver."""
