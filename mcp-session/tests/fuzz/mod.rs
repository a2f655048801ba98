//! The bodies of the fuzz targets in `fuzz/`, which ordinary tests run over the seeds as well.

pub(crate) mod core_machine;
