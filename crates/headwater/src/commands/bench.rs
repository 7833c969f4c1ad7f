use crate::cli::BenchArgs;
use crate::exit::Failure;
pub fn run(_args: &BenchArgs) -> Result<(), Failure> {
    Err(Failure::new(crate::exit::OTHER, "bench"))
}
