//! The data representations of section 1.5: integers, strings, binary data.
