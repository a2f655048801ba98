use serde_json::value::RawValue;

use super::error::{ConfigError, ConfigFault, Place};
use super::value;

/// The texts that a key takes, with their meanings, and how a message lists them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<T: 'static> {
    pub(super) of: &'static [(&'static str, T)],
    pub(super) listed: &'static str,
}

pub(super) fn choice<T: Copy>(raw: &RawValue, place: &Place, choice: Choice<T>) -> Result<T, ConfigError> {
    let text = value::text(raw).map_err(|fault| ConfigError::new(place.clone(), fault))?;
    let found = choice.of.iter().find(|(known, _)| *known == text).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        ConfigError::new(place.clone(), ConfigFault::UnknownChoice { expected: choice.listed })
    })
}
