//! How the objects of the protocol are declared: as tables of their members.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// Declares an object of the protocol: a struct, how it is read and written, and for which versions.
///
/// Each line names a member, its type, its name on the wire, and the rule of [`crate::rule`] by which it
/// is read; then, unless every version has it, those that do: `since` one, `until` one, or `only` one,
/// which is also added to its docs. Members without a line are kept in `other` and written back. A
/// member that is repeated counts with its last value. `skipping` names one that is neither kept nor
/// written, because whoever reads or writes the object takes care of it.
macro_rules! message {
    (
        $(#[$attribute:meta])*
        $name:ident $(skipping $skipped:literal)? {
            $(
                $(#[$doc:meta])*
                $member:ident: $type:ty = $wire:literal, $rule:ident $(, $bound:ident $version:ident)?;
            )*
        }
    ) => {
        $(#[$attribute])*
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$doc])*
                $(#[doc = ""] #[doc = $crate::message::in_words!($bound $version)])?
                pub $member: $type,
            )*
            /// Members that have no name here, as received; they are written back.
            pub other: $crate::other_members::OtherMembers,
        }

        impl $crate::message::Object for $name {
            fn read<'de, A: serde::de::MapAccess<'de>>(
                mut map: A,
                skipped: $crate::message::Skipped,
            ) -> Result<Self, A::Error> {
                #[allow(non_camel_case_types, dead_code, reason = "named after the members; not all skip one")]
                enum Name {
                    $($member,)*
                    Skipped,
                    Other(String),
                }
                $(let mut $member: Option<$type> = None;)*
                let mut other = $crate::other_members::OtherMembers::default();
                let mut skipped = skipped;
                while let Some(found) = map.next_key_seed($crate::message::NameReader(|text: &str| match text {
                    $($wire => Name::$member,)*
                    $($skipped => Name::Skipped,)?
                    _ => Name::Other(text.to_owned()),
                }))? {
                    match found {
                        $(Name::$member => {
                            let value = $crate::rule::Value::<$crate::rule::$rule, $type>::default();
                            $member = Some(map.next_value_seed(value)?);
                        })*
                        Name::Skipped => {
                            skipped.take_note()?;
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                        Name::Other(text) => other.push(&text, map.next_value::<$crate::json::raw_text::RawText<'_>>()?.0),
                    }
                }
                Ok(Self {
                    $($member: $crate::message::or_absent::<$crate::rule::$rule, _, _>($member, $wire)?,)*
                    other,
                })
            }
        }

        impl $crate::member::Member for $name {}

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::message::read(deserializer)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $(if <$crate::rule::$rule as $crate::rule::Rule<$type>>::is_written(&self.$member) {
                    map.serialize_entry($wire, &self.$member)?;
                })*
                self.other.write(&mut map)?;
                map.end()
            }
        }

        impl $crate::versioned::Versioned for $name {
            fn fits(&self, version: $crate::version::ProtocolVersion) -> bool {
                let _ = version;
                $(
                    $(if !$crate::message::holds!(version, $bound $version)
                        && <$crate::rule::$rule as $crate::rule::Rule<$type>>::is_written(&self.$member)
                    {
                        return false;
                    })?
                    if !$crate::versioned::Versioned::fits(&self.$member, version) {
                        return false;
                    }
                )*
                true
            }

            fn fit(
                &mut self,
                version: $crate::version::ProtocolVersion,
            ) -> Result<(), $crate::versioned::NotInVersion> {
                let _ = version;
                $(
                    $(if !$crate::message::holds!(version, $bound $version)
                        && let Some(absent) = <$crate::rule::$rule as $crate::rule::Rule<$type>>::absent()
                    {
                        self.$member = absent;
                    })?
                    $crate::versioned::Versioned::fit(&mut self.$member, version)?;
                )*
                Ok(())
            }
        }
    };
}

/// Whether `version` is one of those that a line of [`message!`] names.
macro_rules! holds {
    ($version:expr, since $bound:ident) => {
        $version >= $crate::version::ProtocolVersion::$bound
    };
    ($version:expr, until $bound:ident) => {
        $version <= $crate::version::ProtocolVersion::$bound
    };
    ($version:expr, only $bound:ident) => {
        $version == $crate::version::ProtocolVersion::$bound
    };
}

/// What the docs say of the versions that a line of [`message!`] names.
macro_rules! in_words {
    (since V2025_03_26) => {
        "Since 2025-03-26."
    };
    (since V2025_06_18) => {
        "Since 2025-06-18."
    };
    (since V2025_11_25) => {
        "Since 2025-11-25."
    };
    (since V2026_07_28) => {
        "Since 2026-07-28."
    };
    (until V2025_11_25) => {
        "Until 2025-11-25."
    };
    (only V2025_11_25) => {
        "Only in 2025-11-25."
    };
}

pub(crate) use {holds, in_words, message};

/// What [`message!`] has declared.
pub(crate) trait Object: Sized {
    /// Reads the members of an object, or what is left of them behind the one that is skipped.
    fn read<'de, A: MapAccess<'de>>(map: A, skipped: Skipped) -> Result<Self, A::Error>;
}

/// Whether the member of an object has come that whoever reads it takes care of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skipped {
    Already,
    NotYet,
}

impl Skipped {
    /// It comes now. As of any member, a second one is refused here and left to whoever reads again.
    pub(crate) fn take_note<E: Error>(&mut self) -> Result<(), E> {
        match std::mem::replace(self, Self::Already) {
            Self::Already => Err(E::custom("a member is repeated")),
            Self::NotYet => Ok(()),
        }
    }
}

pub(crate) fn read<'de, T: Object, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct ObjectVisitor<T>(PhantomData<T>);
    impl<'de, T: Object> Visitor<'de> for ObjectVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::read(map, Skipped::NotYet)
        }
    }
    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

/// What was read of a member, or what stands for it when it is absent.
#[inline]
pub(crate) fn or_absent<R: crate::rule::Rule<T>, T, E: Error>(
    read: Option<T>,
    name: &'static str,
) -> Result<T, E> {
    match read {
        Some(value) => Ok(value),
        None => R::absent().ok_or_else(|| E::missing_field(name)),
    }
}

/// Reads a name without a copy of what is known.
pub(crate) struct NameReader<F>(pub(crate) F);

impl<'de, K, F: FnOnce(&str) -> K> DeserializeSeed<'de> for NameReader<F> {
    type Value = K;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<K, F: FnOnce(&str) -> K> Visitor<'_> for NameReader<F> {
    type Value = K;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<K, E> {
        Ok((self.0)(name))
    }
}
