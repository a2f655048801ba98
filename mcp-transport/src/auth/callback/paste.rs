use super::super::form::Form;

/// Words that end a login.
const SKIP_WORDS: [&str; 4] = ["cancel", "q", "quit", "skip"];

/// What a person has pasted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Pasted {
    /// The parameters of an answer, not judged yet.
    Answer(Form),
    /// The wish to end the login.
    Skip,
    /// Something else; the person may try again.
    Unreadable,
}

impl Pasted {
    /// Reads one line: the whole redirect URL, its query with or without the `?`, or one of the words
    /// `cancel`, `q`, `quit` and `skip`.
    ///
    /// A bare code is not accepted: nothing would show that it belongs to this login.
    #[must_use]
    pub fn read(line: &str) -> Self {
        let line = line.trim();
        if SKIP_WORDS.iter().any(|word| line.eq_ignore_ascii_case(word)) {
            return Self::Skip;
        }
        let query = match line.split_once('?') {
            Some((_, query)) => query.split('#').next().unwrap_or_default(),
            None => line,
        };
        let form = Form::parse(query);
        match form.get("state").is_some() && (form.get("code").is_some() || form.get("error").is_some()) {
            true => Self::Answer(form),
            false => Self::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l08_urls_queries_and_words_are_told_apart() {
        for line in [
            "http://127.0.0.1:7000/callback?code=c&state=s",
            "  http://127.0.0.1:7000/callback?state=s&code=c#fragment\n",
            "?code=c&state=s",
            "code=c&state=s",
        ] {
            let Pasted::Answer(form) = Pasted::read(line) else { panic!("{line}") };
            assert_eq!((form.get("code").unwrap().expose(), form.get("state").unwrap().expose()), ("c", "s"));
        }
        assert!(matches!(Pasted::read("?error=access_denied&state=s"), Pasted::Answer(_)));
        for line in ["skip", " Cancel\n", "q", "QUIT"] {
            assert!(matches!(Pasted::read(line), Pasted::Skip), "{line}");
        }
        for line in [
            "",
            "c",
            "4/0AeanS0bare-code",
            "http://127.0.0.1:7000/callback",
            "code=c",
            "state=s",
            "?",
            "skipped",
        ] {
            assert!(matches!(Pasted::read(line), Pasted::Unreadable), "{line}");
        }
    }
}
