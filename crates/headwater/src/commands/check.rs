use crate::exit::Failure;
pub fn run(_path: &std::path::Path) -> Result<(), Failure> {
    Err(Failure::new(1, "check"))
}
