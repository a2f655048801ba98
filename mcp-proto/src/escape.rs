use std::borrow::Cow;

/// Makes a text from outside safe to show: one line, no control or invisible characters, at most
/// `limit` bytes of the original.
///
/// Control characters (C0, DEL, C1), line and paragraph separators, bidirectional marks, characters
/// without width and Unicode tags become `\u{…}`; `\n`, `\r` and `\t` keep their short forms. A cut is
/// marked with `…`.
#[must_use]
pub fn escape(text: &str, limit: usize) -> Cow<'_, str> {
    let kept = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    if kept.len() == text.len() && !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(kept.len() + 16);
    for character in kept.chars() {
        if is_unsafe(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    if kept.len() < text.len() {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Control characters and those that take no room or turn the text around them.
///
/// Variation selectors below U+FE10 stay: they belong to ordinary emoji.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_texts_are_not_copied() {
        for text in ["", "plain", "ünïcödé 日本語 🦀 e\u{301}", "a\u{a0}b"] {
            assert!(matches!(escape(text, 1000), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn every_control_character_is_escaped() {
        let controls = (0..0x20_u32).chain(0x7f..0xa0).filter_map(char::from_u32);
        for control in controls {
            let shown = escape(&format!("a{control}b"), 100).into_owned();
            let expected = match control {
                '\n' => "a\\nb".to_owned(),
                '\r' => "a\\rb".to_owned(),
                '\t' => "a\\tb".to_owned(),
                other => format!("a\\u{{{:x}}}b", u32::from(other)),
            };
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, expected) in [
            ("\u{1b}[2J", r"\u{1b}[2J"),
            ("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}", r"\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}"),
            ("\u{9b}31m\u{9d}0;x\u{9c}", r"\u{9b}31m\u{9d}0;x\u{9c}"),
            ("a\u{202e}b\u{2066}c\u{2069}", r"a\u{202e}b\u{2066}c\u{2069}"),
            (
                "\u{200b}\u{200e}\u{61c}\u{feff}\u{ad}\u{180e}",
                r"\u{200b}\u{200e}\u{61c}\u{feff}\u{ad}\u{180e}",
            ),
            ("line\u{2028}paragraph\u{2029}", r"line\u{2028}paragraph\u{2029}"),
            ("tag\u{e0041}\u{e007f}", r"tag\u{e0041}\u{e007f}"),
            ("heart\u{fe0f}\u{e0100}\u{3164}", "heart\u{fe0f}\\u{e0100}\\u{3164}"),
        ] {
            assert_eq!(escape(text, 1000), expected);
        }
    }

    #[test]
    fn a_cut_falls_between_characters_and_is_marked() {
        assert_eq!(escape("abcdef", 3), "abc…");
        assert_eq!(escape("aü", 2), "a…");
        assert_eq!(escape("日本", 5), "日…");
        assert_eq!(escape("abc", 3), "abc");
        assert_eq!(escape("abc", 0), "…");
        assert_eq!(escape("", 0), "");
        assert_eq!(escape("a\n", 1), "a…");
    }

    proptest! {
        #[test]
        fn the_result_is_one_line_without_control_characters(
            text in prop::collection::vec(any::<char>(), 0..60), limit in 0..120_usize,
        ) {
            let text: String = text.into_iter().collect();
            let shown = escape(&text, limit);
            prop_assert!(!shown.chars().any(is_unsafe), "{:?}", shown);
            prop_assert!(!shown.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
            // No character grows more than DEL: one byte becomes `\u{7f}`.
            prop_assert!(shown.len() <= 6 * limit + '…'.len_utf8());
        }

        #[test]
        fn bytes_of_any_kind_end_as_safe_text(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = String::from_utf8_lossy(&bytes);
            prop_assert!(!escape(&text, 1000).chars().any(char::is_control));
        }
    }
}
