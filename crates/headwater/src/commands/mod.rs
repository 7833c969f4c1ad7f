//! One file per command.

pub mod audit;
pub mod bench;
pub mod check;
pub mod control;
pub mod cql;
pub mod decode;
pub mod demo;
pub mod keys;
pub mod reference;
pub mod run;
pub mod status;
pub mod streams;
pub mod tail;

use crate::exit::Failure;
use pipeline::assemble::Place;
use pipeline::config::{self, Config};
use std::path::Path;

/// Reads a config and tells what its relative paths count from.
fn load(path: &Path) -> Result<(Config, Place), Failure> {
    let (mut config, place) = (config::load(path)?, Place::of(path));
    place.resolve_security(&mut config);
    Ok((config, place))
}
