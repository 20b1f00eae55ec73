//! `MessagePack` for session states, native and strict.
