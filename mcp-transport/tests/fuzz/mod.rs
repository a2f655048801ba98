//! The bodies of the fuzz targets in `fuzz/`, which ordinary tests run over the seeds as well.

pub(crate) mod auth_headers;
pub(crate) mod auth_metadata;
pub(crate) mod callback_request;
pub(crate) mod line_framer;
pub(crate) mod token_reply;
