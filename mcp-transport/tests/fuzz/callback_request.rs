use mcp_transport::auth::{Form, Pasted, read_callback};

/// Requests to the callback listener, and what a person pastes: what is read can be written and read
/// again, and is for this machine.
pub(crate) fn run(data: &[u8]) {
    if let Ok((path, form)) = read_callback(data, 7000) {
        assert!(path.starts_with('/') && !path.contains(['?', ' ', '\r', '\n']));
        assert!(data.starts_with(b"GET /"));
        assert_eq!(Form::parse(form.encode().expose()), form);
    }
    if let Pasted::Answer(form) = Pasted::read(&String::from_utf8_lossy(data)) {
        assert!(form.get("state").is_some());
        assert_eq!(Form::parse(form.encode().expose()), form);
    }
}
