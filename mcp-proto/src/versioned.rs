use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Number;

use crate::entries::Entries;
use crate::id::RequestId;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::version::ProtocolVersion;

/// What can be written in full for one version of the protocol and not for another.
///
/// Every message of this crate is. What a version lacks is left out where that changes nothing but
/// how much is said (a title, an icon, a wish), and refused where the rest would say something else
/// (a content block, an answer of several texts). [`for_version`] applies it; members that this crate
/// does not name are left as they are.
///
/// A message of your own has nothing to leave out unless it says so: the empty `impl` will do.
pub trait Versioned {
    /// Whether `version` has everything that this value says.
    fn fits(&self, version: ProtocolVersion) -> bool {
        let _ = version;
        true
    }

    /// Leaves out what `version` does not have.
    ///
    /// # Errors
    ///
    /// Something of it cannot be left out.
    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        let _ = version;
        Ok(())
    }
}

/// A value cannot be said in a version of the protocol.
///
/// The caller is at fault: ask for something that the version has, or connect with a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be written for protocol version {version}")]
#[non_exhaustive]
pub struct NotInVersion {
    /// What cannot be said.
    pub what: &'static str,
    /// The version that lacks it.
    pub version: ProtocolVersion,
}

impl NotInVersion {
    /// Says that `what` cannot be said in `version`; `what` reads like "content of several blocks".
    #[must_use]
    pub const fn new(what: &'static str, version: ProtocolVersion) -> Self {
        Self { what, version }
    }
}

/// The value as `version` has it; a copy is made only if something must be left out.
///
/// # Errors
///
/// Something of it cannot be left out.
pub fn for_version<T: Versioned + Clone>(
    value: &T,
    version: ProtocolVersion,
) -> Result<Cow<'_, T>, NotInVersion> {
    if value.fits(version) {
        return Ok(Cow::Borrowed(value));
    }
    let mut fitted = value.clone();
    fitted.fit(version)?;
    Ok(Cow::Owned(fitted))
}

macro_rules! in_every_version {
    ($($type:ty),*) => {
        $(impl Versioned for $type {})*
    };
}

in_every_version!(
    (),
    bool,
    i64,
    u64,
    f64,
    String,
    Number,
    RawJson,
    RequestId,
    Method,
    ProtocolVersion,
    BTreeMap<String, String>
);

impl<T: Versioned> Versioned for Option<T> {
    fn fits(&self, version: ProtocolVersion) -> bool {
        self.iter().all(|value| value.fits(version))
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        self.iter_mut().try_for_each(|value| value.fit(version))
    }
}

impl<T: Versioned> Versioned for Vec<T> {
    fn fits(&self, version: ProtocolVersion) -> bool {
        self.iter().all(|value| value.fits(version))
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        self.iter_mut().try_for_each(|value| value.fit(version))
    }
}

impl<T: Versioned> Versioned for Box<T> {
    fn fits(&self, version: ProtocolVersion) -> bool {
        (**self).fits(version)
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        (**self).fit(version)
    }
}

impl<T: Versioned> Versioned for Entries<T> {
    fn fits(&self, version: ProtocolVersion) -> bool {
        self.iter().all(|(_, value)| value.fits(version))
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        self.values_mut().try_for_each(|value| value.fit(version))
    }
}
