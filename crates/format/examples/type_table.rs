//! Prints docs/reference/formats.md.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(format::type_table().as_bytes())
}
