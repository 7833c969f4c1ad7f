//! Text of any charset, decoded to UTF-8: `change`'s, for messages have such text too.

pub use change::charset::{Charset, name_of_collation};
