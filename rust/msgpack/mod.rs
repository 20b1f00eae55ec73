//! MessagePack for session states.
