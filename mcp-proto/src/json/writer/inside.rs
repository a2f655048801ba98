use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::only_text::OnlyText;
use super::text::write_inside_quotes;
use super::{Writer, by_serde_json};

/// The entries of an array, or the members of an object, on their way.
pub(crate) struct Inside<'a> {
    out: &'a mut String,
    /// What goes before the next one: the bracket, then commas.
    before: char,
    closing: char,
    /// Whether it is the only member of an object, which ends with it.
    is_variant: bool,
}

impl<'a> Inside<'a> {
    #[inline]
    pub(super) fn array(out: &'a mut String) -> Self {
        Self { out, before: '[', closing: ']', is_variant: false }
    }

    #[inline]
    pub(super) fn object(out: &'a mut String) -> Self {
        Self { out, before: '{', closing: '}', is_variant: false }
    }

    /// An object around it was begun, and has to be ended too.
    pub(super) fn of_variant(self) -> Self {
        Self { is_variant: true, ..self }
    }

    #[inline]
    fn entry<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
        self.separate();
        value.serialize(Writer(self.out))
    }

    #[inline]
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> serde_json::Result<()> {
        self.name(name);
        value.serialize(Writer(self.out))
    }

    /// The name of a member, with all that stands around it.
    fn name(&mut self, name: &str) {
        let first = std::mem::replace(&mut self.before, ',') == '{';
        self.out.push_str(if first { "{\"" } else { ",\"" });
        write_inside_quotes(self.out, name);
        self.out.push_str("\":");
    }

    #[inline]
    fn separate(&mut self) {
        self.out.push(std::mem::replace(&mut self.before, ','));
    }

    #[inline]
    fn close(self) {
        if self.before != ',' {
            self.out.push(self.before);
        }
        self.out.push(self.closing);
        if self.is_variant {
            self.out.push('}');
        }
    }
}

/// What may be the name of a member beside a text, and how, is serde_json's to say.
fn odd_name<T: Serialize + ?Sized>(name: &T) -> serde_json::Result<String> {
    let object = serde_json::to_string(&NameOfNothing(name))?;
    let name = object.strip_prefix('{').and_then(|name| name.strip_suffix("null}"));
    name.map(str::to_owned).ok_or_else(|| serde_json::Error::custom("a name is no text"))
}

struct NameOfNothing<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Serialize for NameOfNothing<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &())?;
        map.end()
    }
}

/// The members of a struct on their way.
pub(crate) struct Members<'a> {
    inside: Inside<'a>,
    name: &'static str,
    is_sign: bool,
}

impl<'a> Members<'a> {
    pub(super) fn of(out: &'a mut String, name: &'static str) -> Self {
        Self { inside: Inside::object(out), name, is_sign: false }
    }

    /// Whether a member is no member, but a sign between serde_json and its own types, such as raw values.
    fn is_sign(&self, member: &str) -> bool {
        member == self.name && member.starts_with("$serde_json::")
    }
}

/// Raw JSON goes out as it is. Whatever else serde_json says to itself is for itself.
fn write_sign<T: Serialize + ?Sized>(
    out: &mut String,
    sign: &'static str,
    value: &T,
) -> serde_json::Result<()> {
    if value.serialize(OnlyText(|text: &str| out.push_str(text))).is_ok() {
        return Ok(());
    }
    by_serde_json(out, &Sign(sign, value))
}

struct Sign<'a, T: ?Sized>(&'static str, &'a T);

impl<T: Serialize + ?Sized> Serialize for Sign<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct(self.0, 1)?;
        members.serialize_field(self.0, self.1)?;
        members.end()
    }
}

macro_rules! arrays {
    ($($trait:ident $method:ident;)*) => {
        $(impl $trait for Inside<'_> {
            type Ok = ();
            type Error = serde_json::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
                self.entry(value)
            }

            fn end(self) -> serde_json::Result<()> {
                self.close();
                Ok(())
            }
        })*
    };
}

arrays! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

impl SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = serde_json::Error;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> serde_json::Result<()> {
        if name.serialize(OnlyText(|text: &str| self.name(text))).is_err() {
            let name = odd_name(name)?;
            self.separate();
            self.out.push_str(&name);
        }
        Ok(())
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
        value.serialize(Writer(self.out))
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeStructVariant for Inside<'_> {
    type Ok = ();
    type Error = serde_json::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        self.member(name, value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = serde_json::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        if self.is_sign(name) {
            self.is_sign = true;
            return write_sign(self.inside.out, name, value);
        }
        self.inside.member(name, value)
    }

    fn end(self) -> serde_json::Result<()> {
        if !self.is_sign {
            self.inside.close();
        }
        Ok(())
    }
}
