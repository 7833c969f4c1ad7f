//! Changes into files and standard output, one message a line.
//!
//! Owns: [`FileSink`], exactly once: on start it cuts the file back to what its cursor covers; and
//! [`StdoutSink`], which has no cursor. Refuses: compression.
#![warn(missing_docs)]

mod cursor_file;
mod error;
mod file;
mod stdout;

pub use file::{FileConfig, FileSink, Fsync};
pub use stdout::StdoutSink;
