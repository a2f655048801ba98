//! The bodies of the fuzz targets in `fuzz/`, which ordinary tests run over the seeds as well.

pub(crate) mod envelope;
pub(crate) mod mirrored_headers;
pub(crate) mod typed_results;
