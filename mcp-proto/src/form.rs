use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::entries::Entries;
use crate::member::Member;
use crate::member::exact_number::exact_number;
use crate::message::message;
use crate::open_enum::open_enum;
use crate::payload::decode_with;
use crate::raw_json::RawJson;
use crate::version::ProtocolVersion;
use crate::versioned::{NotInVersion, Versioned};

message! {
    /// What a form asks for: a flat object of fields.
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/elicitation; `requestedSchema`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    FormSchema {
        /// What is filled in: an object.
        kind: FormKind = "type", OrDefault;
        /// The dialect of JSON Schema.
        dialect: Option<String> = "$schema", Hint, since V2025_11_25;
        /// The fields by name, in the order in which they are to be shown.
        properties: Entries<FieldSchema> = "properties", Nullable;
        /// The names of the fields that must be filled in.
        required: Vec<String> = "required", HintOrDefault;
    }
}

open_enum! {
    /// What a form is made of.
    #[derive(Default)]
    FormKind {
        /// Fields with names.
        #[default]
        Object = "object",
    }
}

/// What one field of a form asks for.
///
/// A field of a kind that this crate does not know is kept as it is: show it as one that cannot be
/// filled in, or decline the form.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldSchema {
    /// Yes or no.
    Boolean(BooleanSchema),
    /// Any number of texts out of a list (since 2025-11-25).
    MultiSelect(MultiSelectSchema),
    /// A number.
    Number(NumberSchema),
    /// Anything else, as received.
    Other(RawJson),
    /// One text out of a list.
    SingleSelect(SingleSelectSchema),
    /// A text.
    Text(TextSchema),
}

message! {
    /// Asks for a text.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    TextSchema skipping "type" {
        /// Name for people.
        title: Option<String> = "title", Hint;
        /// What belongs in it; untrusted.
        description: Option<String> = "description", Hint;
        /// The fewest characters.
        min_length: Option<u64> = "minLength", Hint;
        /// The most characters.
        max_length: Option<u64> = "maxLength", Hint;
        /// What the text must be.
        format: Option<TextFormat> = "format", Hint;
        /// What to propose.
        default: Option<String> = "default", Hint, since V2025_11_25;
    }
}

open_enum! {
    /// What a text must be.
    TextFormat {
        /// A date of RFC 3339.
        Date = "date",
        /// A date and time of RFC 3339.
        DateTime = "date-time",
        /// A mail address.
        Email = "email",
        /// A URI.
        Uri = "uri",
    }
}

message! {
    /// Asks for a number.
    #[derive(Debug, Clone, PartialEq, Eq)]
    NumberSchema {
        /// Whether it must be whole.
        kind: NumberKind = "type", Required;
        /// Name for people.
        title: Option<String> = "title", Hint;
        /// What belongs in it; untrusted.
        description: Option<String> = "description", Hint;
        /// The least one.
        minimum: Option<Number> = "minimum", Hint;
        /// The greatest one.
        maximum: Option<Number> = "maximum", Hint;
        /// What to propose; none if 64 bits or a float cannot hold it as it is written.
        default: Option<Number> = "default", ExactHint, since V2025_11_25;
    }
}

open_enum! {
    /// Which numbers a field takes.
    NumberKind {
        /// Whole ones.
        Integer = "integer",
        /// Any.
        Number = "number",
    }
}

message! {
    /// Asks for yes or no.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    BooleanSchema skipping "type" {
        /// Name for people.
        title: Option<String> = "title", Hint;
        /// What it means; untrusted.
        description: Option<String> = "description", Hint;
        /// What to propose.
        default: Option<bool> = "default", Hint;
    }
}

message! {
    /// Asks for one text out of a list.
    ///
    /// The list comes in one of three forms, which [`SingleSelectSchema::choices`] reads alike.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    SingleSelectSchema skipping "type" {
        /// Name for people.
        title: Option<String> = "title", Hint;
        /// What belongs in it; untrusted.
        description: Option<String> = "description", Hint;
        /// The texts, when they have no names of their own or have them in `value_titles`.
        values: Option<Vec<String>> = "enum", Optional;
        /// Names for people, one for each of `values`; superseded by `titled`.
        value_titles: Option<Vec<String>> = "enumNames", Hint;
        /// The texts with names for people.
        titled: Option<Vec<TitledValue>> = "oneOf", Optional, since V2025_11_25;
        /// What to propose.
        default: Option<String> = "default", Hint, since V2025_11_25;
    }
}

message! {
    /// Asks for any number of texts out of a list (since 2025-11-25).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    MultiSelectSchema skipping "type" {
        /// Name for people.
        title: Option<String> = "title", Hint;
        /// What belongs in it; untrusted.
        description: Option<String> = "description", Hint;
        /// The fewest texts.
        min_items: Option<u64> = "minItems", Hint;
        /// The most texts.
        max_items: Option<u64> = "maxItems", Hint;
        /// The list to choose from.
        items: MultiSelectItems = "items", Required;
        /// What to propose.
        default: Option<Vec<String>> = "default", Hint;
    }
}

message! {
    /// The list that a [`MultiSelectSchema`] lets choose from.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    MultiSelectItems {
        /// `string`, when the texts have no names of their own.
        kind: Option<String> = "type", Hint;
        /// The texts, when they have no names of their own.
        values: Option<Vec<String>> = "enum", Optional;
        /// The texts with names for people.
        titled: Option<Vec<TitledValue>> = "anyOf", Optional;
    }
}

message! {
    /// A text to choose, with a name for people.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    TitledValue {
        /// The text that is sent.
        value: String = "const", Required;
        /// The name that is shown; untrusted.
        title: String = "title", OrDefault;
    }
}

/// What somebody has filled into one field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValue {
    /// Yes or no.
    Boolean(bool),
    /// Several texts out of a list (since 2025-11-25).
    Many(Vec<String>),
    /// A number that 64 bits or a float hold as it is written.
    Number(Number),
    /// Anything else, as received; other numbers among it.
    Other(RawJson),
    /// A text, or one out of a list.
    Text(String),
}

impl FormSchema {
    /// What accepting the form as it is proposes: the default of each field that has one.
    ///
    /// A default that its own field would refuse is left out: a text that is not in the list, a number
    /// out of its limits. Whether the form may be accepted like that is told by
    /// [`FormSchema::lacks`].
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/elicitation: clients that support defaults should fill them in.
    #[must_use]
    pub fn defaults(&self) -> Entries<FieldValue> {
        let proposed = self
            .properties
            .iter()
            .filter_map(|(name, field)| Some((name.to_owned(), field.default_value()?)));
        proposed.collect()
    }

    /// The required fields that `content` does not fill in.
    #[must_use]
    pub fn lacks(&self, content: &Entries<FieldValue>) -> Vec<&str> {
        let filled: HashSet<&str> = content.iter().map(|(name, _)| name).collect();
        self.required.iter().map(String::as_str).filter(|name| !filled.contains(name)).collect()
    }

    /// The entries of `content` that the form does not take: values that their field refuses, and those
    /// for which it has no field.
    ///
    /// An answer is valid when this and [`FormSchema::lacks`] find nothing, but for the formats of texts.
    #[must_use]
    pub fn refuses<'a>(&self, content: &'a Entries<FieldValue>) -> Vec<&'a str> {
        let fields: HashMap<&str, &FieldSchema> = self.properties.iter().collect();
        let is_taken = |name: &str, value| fields.get(name).is_some_and(|field| field.takes(value));
        content.iter().filter(|(name, value)| !is_taken(name, value)).map(|(name, _)| name).collect()
    }
}

impl FieldSchema {
    /// The default, if there is one and the field itself would take it.
    #[must_use]
    pub fn default_value(&self) -> Option<FieldValue> {
        let default = match self {
            Self::Boolean(field) => FieldValue::Boolean(field.default?),
            Self::MultiSelect(field) => FieldValue::Many(field.default.clone()?),
            Self::Number(field) => FieldValue::Number(field.default.clone()?),
            Self::Other(_) => return None,
            Self::SingleSelect(field) => FieldValue::Text(field.default.clone()?),
            Self::Text(field) => FieldValue::Text(field.default.clone()?),
        };
        self.takes(&default).then_some(default)
    }

    /// Whether `value` is what the field asks for.
    ///
    /// The format of a text is not checked, and a field of an unknown kind takes nothing.
    #[must_use]
    pub fn takes(&self, value: &FieldValue) -> bool {
        match (self, value) {
            (Self::Boolean(_), FieldValue::Boolean(_)) => true,
            (Self::MultiSelect(field), FieldValue::Many(chosen)) => {
                let choices: HashSet<&str> = field.choices().iter().map(|choice| choice.value).collect();
                is_between(chosen.len(), field.min_items, field.max_items)
                    && chosen.iter().all(|text| choices.contains(text.as_str()))
            }
            (Self::Number(field), FieldValue::Number(number)) => field.takes(number),
            (Self::SingleSelect(field), FieldValue::Text(text)) => {
                field.choices().iter().any(|choice| choice.value == text)
            }
            (Self::Text(field), FieldValue::Text(text)) => {
                is_between(text.chars().count(), field.min_length, field.max_length)
            }
            _ => false,
        }
    }
}

fn is_between(count: usize, least: Option<u64>, most: Option<u64>) -> bool {
    let count = count as u64;
    least.is_none_or(|least| count >= least) && most.is_none_or(|most| count <= most)
}

impl NumberSchema {
    fn takes(&self, number: &Number) -> bool {
        let value = number.as_f64().unwrap_or(f64::NAN);
        let is_whole = number.is_i64() || number.is_u64() || value.fract() == 0.0;
        (self.kind != NumberKind::Integer || is_whole)
            && self.minimum.as_ref().and_then(Number::as_f64).is_none_or(|least| value >= least)
            && self.maximum.as_ref().and_then(Number::as_f64).is_none_or(|most| value <= most)
    }
}

/// One text of a list, with the name that people see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The text that is sent.
    pub value: &'a str,
    /// The name that is shown, the text itself where it has none; untrusted.
    pub title: &'a str,
}

impl SingleSelectSchema {
    /// The texts to choose from.
    #[must_use]
    pub fn choices(&self) -> Vec<Choice<'_>> {
        choices(self.values.as_deref(), self.value_titles.as_deref(), self.titled.as_deref())
    }
}

impl MultiSelectSchema {
    /// The texts to choose from.
    #[must_use]
    pub fn choices(&self) -> Vec<Choice<'_>> {
        choices(self.items.values.as_deref(), None, self.items.titled.as_deref())
    }
}

fn choices<'a>(
    values: Option<&'a [String]>,
    value_titles: Option<&'a [String]>,
    titled: Option<&'a [TitledValue]>,
) -> Vec<Choice<'a>> {
    let of_titled = titled.unwrap_or_default().iter().map(|choice| Choice {
        value: &choice.value,
        title: if choice.title.is_empty() { &choice.value } else { &choice.title },
    });
    let value_titles = value_titles.unwrap_or_default();
    let of_values = values
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, value)| Choice { value, title: value_titles.get(index).unwrap_or(value) });
    of_titled.chain(of_values).collect()
}

impl Member for FieldSchema {}

impl Versioned for FieldSchema {
    fn fits(&self, version: ProtocolVersion) -> bool {
        match self {
            Self::Boolean(field) => field.fits(version),
            Self::MultiSelect(_) => version >= ProtocolVersion::V2025_11_25,
            Self::Number(field) => field.fits(version),
            Self::Other(_) => true,
            Self::SingleSelect(field) => field.fits(version),
            Self::Text(field) => field.fits(version),
        }
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        match self {
            Self::Boolean(field) => field.fit(version),
            Self::MultiSelect(_) if self.fits(version) => Ok(()),
            Self::MultiSelect(_) => Err(NotInVersion { what: "a field of several texts", version }),
            Self::Number(field) => field.fit(version),
            Self::Other(_) => Ok(()),
            // Without its texts it would take any.
            Self::SingleSelect(field) if field.values.is_none() && !field.fits(version) => {
                Err(NotInVersion { what: "a list of texts with names", version })
            }
            Self::SingleSelect(field) => field.fit(version),
            Self::Text(field) => field.fit(version),
        }
    }
}

impl Versioned for FieldValue {
    fn fits(&self, version: ProtocolVersion) -> bool {
        !matches!(self, Self::Many(_)) || version >= ProtocolVersion::V2025_11_25
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        if self.fits(version) {
            Ok(())
        } else {
            Err(NotInVersion { what: "an answer of several texts", version })
        }
    }
}

impl Serialize for FieldSchema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type")]
        enum Tagged<'a> {
            #[serde(rename = "boolean")]
            Boolean(&'a BooleanSchema),
            #[serde(rename = "array")]
            MultiSelect(&'a MultiSelectSchema),
            #[serde(rename = "string")]
            SingleSelect(&'a SingleSelectSchema),
            #[serde(rename = "string")]
            Text(&'a TextSchema),
        }
        match self {
            Self::Boolean(field) => Tagged::Boolean(field).serialize(serializer),
            Self::MultiSelect(field) => Tagged::MultiSelect(field).serialize(serializer),
            Self::Number(field) => field.serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
            Self::SingleSelect(field) => Tagged::SingleSelect(field).serialize(serializer),
            Self::Text(field) => Tagged::Text(field).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FieldSchema {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "type")]
            kind: String,
            #[serde(rename = "enum")]
            values: Option<serde::de::IgnoredAny>,
            #[serde(rename = "oneOf")]
            titled: Option<serde::de::IgnoredAny>,
        }
        let raw = RawJson::deserialize(deserializer)?;
        let Ok(kind) = raw.decode::<Kind>() else { return Ok(Self::Other(raw)) };
        let read = match kind.kind.as_str() {
            "array" => raw.decode().map(Self::MultiSelect),
            "boolean" => raw.decode().map(Self::Boolean),
            "integer" | "number" => raw.decode().map(Self::Number),
            "string" if kind.values.is_some() || kind.titled.is_some() => {
                raw.decode().map(Self::SingleSelect)
            }
            "string" => raw.decode().map(Self::Text),
            _ => return Ok(Self::Other(raw)),
        };
        Ok(read.unwrap_or(Self::Other(raw)))
    }
}

impl Serialize for FieldValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Boolean(value) => value.serialize(serializer),
            Self::Many(values) => values.serialize(serializer),
            Self::Number(value) => value.serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
            Self::Text(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let read = match raw.get().as_bytes().first() {
            Some(b'"') => raw.decode().map(Self::Text),
            Some(b't' | b'f') => raw.decode().map(Self::Boolean),
            Some(b'[') => decode_with(raw.get(), |reader| Vec::read(reader)).map(Self::Many),
            _ => return Ok(exact_number(raw.get()).map_or(Self::Other(raw), Self::Number)),
        };
        Ok(read.unwrap_or(Self::Other(raw)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::for_version;

    fn form(properties: &str) -> FormSchema {
        serde_json::from_str(&format!(r#"{{"type":"object","properties":{properties},"required":["t"]}}"#))
            .unwrap()
    }

    const EVERY_KIND: &str = r#"{"b":{"type":"boolean","title":"B","default":false},
        "l":{"type":"string","enum":["a","b"],"enumNames":["A"],"default":"b"},
        "t":{"type":"string","minLength":1,"maxLength":3,"format":"email","default":"äöü"},
        "i":{"type":"integer","minimum":0,"maximum":100,"default":42},
        "n":{"type":"number","default":95.5},
        "u":{"type":"string","enum":["x"]},
        "o":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g"}],"default":"g"},
        "m":{"type":"array","minItems":1,"items":{"type":"string","enum":["p","q"]},"default":["q"]},
        "y":{"type":"array","items":{"anyOf":[{"const":"1","title":"One"}]},"default":[]},
        "?":{"type":"hologram","default":1}}"#;

    #[test]
    fn every_kind_of_field_is_told_apart_and_survives() {
        let form = form(EVERY_KIND);
        let kinds: Vec<&str> = form
            .properties
            .iter()
            .map(|(_, field)| match field {
                FieldSchema::Boolean(_) => "boolean",
                FieldSchema::MultiSelect(_) => "multi",
                FieldSchema::Number(_) => "number",
                FieldSchema::Other(_) => "other",
                FieldSchema::SingleSelect(_) => "single",
                FieldSchema::Text(_) => "text",
            })
            .collect();
        let expected = "boolean single text number number single single multi multi other";
        assert_eq!(kinds.join(" "), expected);
        let mut original: serde_json::Value = serde_json::from_str(EVERY_KIND).unwrap();
        // A choice without a name is written with an empty one.
        original["o"]["oneOf"][1]["title"] = "".into();
        assert_eq!(serde_json::to_value(&form.properties).unwrap(), original);
    }

    #[test]
    fn accepting_as_it_is_takes_every_default() {
        let form = form(EVERY_KIND);
        let content = form.defaults();
        assert_eq!(
            serde_json::to_string(&content).unwrap(),
            r#"{"b":false,"l":"b","t":"äöü","i":42,"n":95.5,"o":"g","m":["q"],"y":[]}"#
        );
        assert!(form.lacks(&content).is_empty() && form.refuses(&content).is_empty());
        let wrong: Entries<FieldValue> =
            serde_json::from_str(r#"{"b":true,"l":"c","t":7,"i":101,"n":0.5,"?":1,"z":"","m":["p","x"]}"#)
                .unwrap();
        assert_eq!(form.refuses(&wrong).join(" "), "l t i ? z m");
        assert_eq!(form.lacks(&Entries::new()), ["t"]);
    }

    #[test]
    fn f105_no_number_of_a_form_changes() {
        for number in ["123456789012345678901234567890", "0.12345678901234567890", "1e400"] {
            let form = form(&format!(r#"{{"n":{{"type":"number","default":{number}}}}}"#));
            assert_eq!(form.defaults(), Entries::new(), "{number}");
            let value: FieldValue = serde_json::from_str(number).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), number);
            assert!(matches!(value, FieldValue::Other(_)), "{number}");
        }
        let form = form(r#"{"n":{"type":"number","default":95.50}}"#);
        assert_eq!(serde_json::to_string(&form.defaults()).unwrap(), r#"{"n":95.5}"#);
    }

    #[test]
    fn a_form_takes_time_in_proportion_to_its_size() {
        const COUNT: usize = 200_000;
        let check = || {
            let names: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
            let items = MultiSelectItems { values: Some(names.clone()), ..MultiSelectItems::default() };
            let last = vec![names[COUNT - 1].clone(); COUNT];
            let list = MultiSelectSchema { items, default: Some(last), ..MultiSelectSchema::default() };
            assert!(FieldSchema::MultiSelect(list).default_value().is_some());

            let field =
                FieldSchema::Boolean(BooleanSchema { default: Some(true), ..BooleanSchema::default() });
            let properties = names.iter().map(|name| (name.clone(), field.clone())).collect();
            let form = FormSchema { properties, required: names, ..FormSchema::default() };
            let content = form.defaults();
            assert_eq!(
                (content.len(), form.lacks(&content), form.refuses(&content)),
                (COUNT, vec![], vec![])
            );
        };
        // Comparing each with each would take many minutes.
        let (done, is_done) = mpsc::sync_channel(1);
        let checking = thread::spawn(move || {
            check();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(60)).expect("in time");
        checking.join().unwrap();
    }

    #[test]
    fn a_default_that_its_field_refuses_is_left_out() {
        for field in [
            r#"{"type":"string","enum":["a"],"default":"b"}"#,
            r#"{"type":"string","oneOf":[{"const":"a","title":"b"}],"default":"b"}"#,
            r#"{"type":"string","minLength":2,"default":"ä"}"#,
            r#"{"type":"string","maxLength":2,"default":"abc"}"#,
            r#"{"type":"string","default":7}"#,
            r#"{"type":"integer","default":1.5}"#,
            r#"{"type":"number","minimum":1,"default":0.5}"#,
            r#"{"type":"number","maximum":1,"default":1.5}"#,
            r#"{"type":"boolean","default":"yes"}"#,
            r#"{"type":"array","items":{"enum":["a"]},"default":["a","b"]}"#,
            r#"{"type":"array","items":{"enum":["a"]},"minItems":1,"default":[]}"#,
            r#"{"type":"array","items":{"enum":["a"]},"maxItems":0,"default":["a"]}"#,
            r#"{"type":"boolean"}"#,
            "7",
        ] {
            let form = form(&format!(r#"{{"x":{field}}}"#));
            assert_eq!(form.defaults(), Entries::new(), "{field}");
            assert_eq!(form.properties.len(), 1, "{field}");
        }
    }

    #[test]
    fn what_an_older_version_cannot_ask_for_is_left_out_or_refused() {
        let old = ProtocolVersion::V2025_06_18;
        let fitted = |field: &str| {
            let field: FieldSchema = serde_json::from_str(field).unwrap();
            for_version(&field, old).map(|field| serde_json::to_string(&*field).unwrap())
        };
        for (field, expected) in [
            (r#"{"type":"string","default":"a"}"#, r#"{"type":"string"}"#),
            (r#"{"type":"integer","default":1}"#, r#"{"type":"integer"}"#),
            (r#"{"type":"boolean","default":true}"#, r#"{"type":"boolean","default":true}"#),
            (r#"{"type":"string","enum":["a"],"default":"a"}"#, r#"{"type":"string","enum":["a"]}"#),
        ] {
            assert_eq!(fitted(field).unwrap(), expected);
        }
        for field in [
            r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#,
            r#"{"type":"string","oneOf":[{"const":"a","title":"A"}]}"#,
        ] {
            assert_eq!(fitted(field).unwrap_err().version, old, "{field}");
        }
        let several = FieldValue::Many(vec!["a".to_owned()]);
        assert!(for_version(&several, old).is_err());
        assert_eq!(*for_version(&several, ProtocolVersion::V2025_11_25).unwrap(), several);
    }

    #[test]
    fn choices_have_one_form() {
        let form = form(EVERY_KIND);
        let shown = |name: &str| match form.properties.get(name) {
            Some(FieldSchema::SingleSelect(field)) => field.choices(),
            Some(FieldSchema::MultiSelect(field)) => field.choices(),
            other => panic!("no list: {other:?}"),
        };
        let shown = |name| {
            shown(name).iter().map(|c| format!("{}={}", c.value, c.title)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("l"), "a=A b=b");
        assert_eq!(shown("o"), "r=Red g=g");
        assert_eq!(shown("m"), "p=p q=q");
        assert_eq!(shown("y"), "1=One");
    }
}
