//! An item of the window, without Python.
