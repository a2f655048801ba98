//! The command from outside: what it prints, what it ends with, and that nothing stays behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod web;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcp_transport::testing::ServerScript;
use mcp_transport::testing::checks::{self, until};
use mcp_transport::testing::fixture::{MARK, Transcript};
use serde_json::{Value, json};
use tempfile::TempDir;
use web::Web;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcpctl");

/// What a run of the command has come to.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

/// A folder with a configuration, and a mark that finds every process started from it.
struct Place {
    folder: TempDir,
    mark: String,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), mark: checks::new_mark() }
    }

    /// A place whose configuration names these servers: name and flags of the fixture.
    fn with_servers(servers: &[(&str, &[&str])]) -> Self {
        let place = Self::new();
        let entry = |flags: &[&str]| {
            let args: Vec<&str> = ["fixture"].iter().chain(flags).copied().collect();
            json!({"command": PROGRAM, "args": args, "env": {MARK: place.mark}})
        };
        let servers: serde_json::Map<String, Value> =
            servers.iter().map(|(name, flags)| ((*name).to_owned(), entry(flags))).collect();
        place.write(&json!({"mcpServers": servers}).to_string());
        place
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join(".mcp.json"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the command and checks that no server is left afterwards.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Run {
        self.finished(self.command(arguments))
    }

    /// The same, where nobody reads standard output.
    #[track_caller]
    fn run_unread(&self, arguments: &[&str]) -> Run {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = self.command(arguments);
        command.stdout(writer);
        self.finished(command)
    }

    #[track_caller]
    fn finished(&self, mut command: Command) -> Run {
        let output = command.output().unwrap();
        let left = checks::marked(&self.mark);
        assert!(left.is_empty(), "left behind by {command:?}: {left:?}");
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Run {
    /// Checks exit code and the one sentence on standard error.
    #[track_caller]
    fn fails(&self, code: i32, sentence_holds: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        for part in sentence_holds {
            assert!(self.stderr.contains(part), "{part:?} is missing: {}", self.stderr);
        }
    }

    #[track_caller]
    fn document(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

fn file(folder: &Path) -> String {
    folder.join(".mcp.json").display().to_string()
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let place = Place::with_servers(&[("good", &[])]);
    for arguments in [
        &["dance"][..],
        &[],
        &["call"],
        &["call", "good"],
        &["call", "good", "echo", "novalue"],
        &["call", "good", "echo", "{broken"],
        &["call", "good", "echo", "--timeout", "0s"],
        &["call", "good", "echo", "--timeout", "soon"],
        &["read", "good"],
        &["read", "good", "a", "b"],
        &["prompt", "good"],
        &["list", "a", "b"],
        &["demo", "--break", "nonsense"],
    ] {
        let run = place.run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(!run.stderr.is_empty(), "{arguments:?} says nothing");
    }
}

#[test]
fn help_and_version_end_with_0() {
    let place = Place::new();
    for arguments in [&["--help"][..], &["--version"], &["call", "--help"]] {
        let run = place.run(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(!run.stdout.contains("fixture") && !run.stdout.contains("--break"), "{}", run.stdout);
    }
}

#[test]
fn a_configuration_that_cannot_be_used_names_its_place() {
    let place = Place::new();
    place.run(&["list"]).fails(2, &["no configuration found", ".mcp.json", "--config"]);
    place.run(&["list", "--config", "gone.json"]).fails(2, &["gone.json: cannot be read"]);
    place.write("{\n  \"mcpServers\": {\n    \"a\" 1\n}}");
    place.run(&["list"]).fails(2, &[&file(place.folder.path()), ":3:9:", "not valid JSON"]);
    place.run(&["config", "check"]).fails(2, &[":3:9:", "not valid JSON"]);
    place.write("{\"servers\": {}}");
    place.run(&["call", "a", "b"]).fails(2, &["has no \"mcpServers\" object"]);
    place.write("{\"mcpServers\": {\"web\": {\"url\": \"example.org\"}}}");
    place.run(&["call", "web", "b"]).fails(2, &["server \"web\"", "not a complete http or https URL"]);
}

#[test]
fn config_check_names_every_mistake() {
    let place = Place::new();
    place.write("{\"mcpServers\": {\"a\": {\"command\": \"x\", \"timeout\": -1},\n\"b\": {\"command\": \"x\", \"odd\": 1}}}");
    let run = place.run(&["config", "check"]);
    assert_eq!(run.code, 2);
    assert!(run.stdout.contains(":1:39: server \"a\": \"timeout\" must be more than zero"), "{}", run.stdout);
    assert!(
        run.stdout.contains(":2:23: server \"b\": \"odd\" is not a key this version knows"),
        "{}",
        run.stdout
    );
    let document = place.run(&["config", "check", "--json"]).document();
    assert_eq!((&document["ok"], &document["servers"]), (&json!(false), &json!(["b"])));
    place.write("{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
    let run = place.run(&["config", "check"]);
    assert_eq!((run.code, run.stdout.contains("1 servers, no errors")), (0, true), "{}", run.stdout);
}

#[test]
fn an_unknown_server_is_told_with_those_that_are_known() {
    let place = Place::with_servers(&[("good", &[]), ("other", &[])]);
    place.run(&["call", "goood", "echo"]).fails(2, &["no server \"goood\"", "good, other"]);
    place.run(&["list", "goood"]).fails(2, &["no server \"goood\""]);
    let run = place.run(&["call", "goood", "echo", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (2, ""));
    let document = run.document();
    assert_eq!((&document["ok"], &document["error"]["kind"]), (&json!(false), &json!("usage")));
}

#[test]
fn f001_a_command_that_does_not_exist_is_named() {
    let place = Place::new();
    place
        .run(&["read", "x", "--", "no-such-program-7f3a"])
        .fails(3, &["no-such-program-7f3a", "not found", "PATH"]);
    let list = place.run(&["list", "--", "no-such-program-7f3a"]);
    assert_eq!((list.code, list.stdout.contains("not found")), (3, true), "{}", list.stdout);
    place.run(&["call", "x", "--", "/no/such/path"]).fails(3, &["/no/such/path", "not found"]);
}

#[test]
fn f002_a_working_directory_that_does_not_exist_is_named() {
    let place = Place::new();
    place.write(
        &json!({"mcpServers": {"a": {"command": PROGRAM, "args": ["fixture"], "cwd": "gone"}}}).to_string(),
    );
    place
        .run(&["call", "a", "echo"])
        .fails(3, &["server \"a\"", "working directory", "gone", "make that folder"]);
}

#[test]
fn a_file_that_is_no_program_is_named_with_what_helps() {
    let place = Place::new();
    let file = place.folder.path().join("tool");
    std::fs::write(&file, "no program").unwrap();
    let path = file.to_str().unwrap();
    place.run(&["call", "x", "--", path]).fails(3, &["tool", "is not executable", "set its executable bit"]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    place
        .run(&["call", "x", "--", path])
        .fails(3, &["tool", "is not a program", "name its interpreter as the command"]);
}

#[test]
fn f010_a_server_that_dies_at_start_is_shown_with_its_last_words() {
    let place = Place::with_servers(&[("bad", &["--on", "start: stderr cannot open the database; exit 1"])]);
    place.run(&["call", "bad", "echo"]).fails(
        3,
        &["server \"bad\"", "status 1", "cannot open the database", "run its command in a terminal"],
    );
    let document = place.run(&["call", "bad", "echo", "--json"]);
    assert_eq!(document.code, 3);
    let document = document.document();
    assert_eq!((&document["ok"], &document["error"]["outcome"]), (&json!(false), &json!("not_sent")));
    assert_eq!(document["error"]["kind"], "unreachable");
}

#[test]
fn a_server_that_prints_garbage_is_told_from_a_broken_one() {
    let place = Place::with_servers(&[("noisy", &["--on", "start: noise 2000; hang"])]);
    place
        .run(&["call", "noisy", "echo"])
        .fails(3, &["server \"noisy\"", "does not speak MCP", "check that its command starts an MCP server"]);
}

#[test]
fn a_silent_server_ends_with_the_time() {
    let place = Place::with_servers(&[("mute", &["--on", "start: hang"]), ("slow", &[])]);
    place
        .run(&["call", "mute", "echo", "--timeout", "300ms"])
        .fails(4, &["server \"mute\"", "did not get ready within", "give it more time"]);
    place.run(&["call", "slow", "hang", "--timeout", "500ms"]).fails(4, &["server \"slow\""]);
    let document = place.run(&["call", "slow", "hang", "--timeout", "500ms", "--json"]).document();
    assert_eq!(
        (&document["error"]["kind"], &document["error"]["outcome"]),
        (&json!("timeout"), &json!("unknown"))
    );
}

#[test]
fn the_limits_of_the_configuration_hold() {
    let place = Place::new();
    let entry = |key: &str, flags: &[&str]| {
        let args: Vec<&str> = ["fixture"].iter().chain(flags).copied().collect();
        json!({"command": PROGRAM, "args": args, "env": {MARK: place.mark}, key: "300ms"})
    };
    let servers =
        json!({"slow": entry("timeout", &[]), "mute": entry("connectTimeout", &["--on", "start: hang"])});
    place.write(&json!({"mcpServers": servers}).to_string());
    place.run(&["call", "slow", "hang"]).fails(4, &["server \"slow\"", "no answer within 3"]);
    place
        .run(&["call", "mute", "echo"])
        .fails(3, &["server \"mute\"", "not ready within 300 ms", "give it more time to connect"]);
}

#[test]
fn every_command_says_in_its_own_way_that_the_time_was_up() {
    let place = Place::with_servers(&[("good", &[]), ("mute", &["--on", "start: hang"])]);
    assert_eq!(place.run(&["status", "--timeout", "1s"]).code, 4);
    assert_eq!(place.run(&["list", "mute", "--timeout", "300ms"]).code, 4);
    let run = place.run(&["list", "--timeout", "1s", "--json"]);
    assert_eq!(run.code, 3, "the others are shown");
    let document = run.document();
    assert_eq!(document["servers"][0]["ok"], true, "{document}");
    let error = &document["servers"][1]["error"];
    assert_eq!((&error["kind"], &error["retryable"]), (&json!("timeout"), &json!(true)), "{error}");
}

#[test]
fn problems_say_what_can_have_happened_and_whether_to_try_again() {
    let place = Place::new();
    let off = json!({"command": PROGRAM, "args": ["fixture"], "enabled": false});
    let gone = json!({"command": "no-such-program-7f3a"});
    let dies = json!({"command": PROGRAM, "args": ["fixture", "--on", "start: exit 1"]});
    place.write(&json!({"mcpServers": {"off": off, "gone": gone, "dies": dies}}).to_string());
    for (server, code, is_retryable) in
        [("unknown", 2, false), ("off", 3, false), ("gone", 3, false), ("dies", 3, true)]
    {
        let run = place.run(&["call", server, "echo", "--json"]);
        let error = &run.document()["error"];
        assert_eq!(run.code, code, "{server}: {error}");
        assert_eq!(error["outcome"], "not_sent", "{server}: {error}");
        assert_eq!(error["retryable"], is_retryable, "{server}: {error}");
    }
}

#[test]
fn a_reader_that_leaves_changes_no_exit_code() {
    let place = Place::with_servers(&[("bad", &["--on", "start: exit 1"]), ("good", &[])]);
    for (arguments, code) in [
        (&["call", "good", "echo", "message=x"][..], 0),
        (&["call", "good", "fail"], 1),
        (&["call", "good", "fail", "--json"], 1),
        (&["read", "good", "fixture://text/2"], 0),
        (&["list"], 3),
        (&["list", "good"], 0),
        (&["status"], 3),
        (&["config", "check"], 0),
        (&["status", "good", "--watch"], 0),
    ] {
        let run = place.run_unread(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (code, ""), "{arguments:?}");
    }
}

#[test]
fn an_excluded_tool_is_shown_and_cannot_be_called() {
    let place = Place::new();
    let transcript = place.folder.path().join("transcript");
    let args = ["fixture", "--transcript", transcript.to_str().unwrap()];
    let entry = |key: &str, tools: &[&str]| json!({"command": PROGRAM, "args": args, key: tools});
    let servers = json!({"less": entry("excludeTools", &["echo"]), "few": entry("includeTools", &["fail"])});
    place.write(&json!({"mcpServers": servers}).to_string());
    for server in ["less", "few"] {
        let run = place.run(&["call", server, "echo", "message=x"]);
        run.fails(2, &[&format!("server \"{server}\""), "excludes the tool \"echo\"", "excludeTools"]);
    }
    assert!(Transcript::read(&transcript).servers().is_empty(), "nothing is started");
    let run = place.run(&["list", "less"]);
    assert!(run.stdout.contains("excluded by the configuration: echo\n"), "{}", run.stdout);
    assert_eq!(place.run(&["list", "less", "--json"]).document()["servers"][0]["excluded"], json!(["echo"]));
    assert_eq!(place.run(&["call", "few", "fail"]).code, 1);
}

#[test]
fn a_call_prints_its_answer() {
    let place = Place::with_servers(&[("good", &[])]);
    let run = place.run(&["call", "good", "echo", "message=hello world"]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "hello world\n", ""));
    let run = place.run(&["call", "good", "echo", "{\"message\": \"x\"}", "--json"]);
    let document = run.document();
    assert_eq!(document["result"]["content"], json!([{"type": "text", "text": "x"}]));
    assert_eq!(document["result"]["resultType"], "complete", "the result is printed as it was received");
    assert_eq!(
        (&document["server"], &document["tool"], &document["ok"]),
        (&json!("good"), &json!("echo"), &json!(true))
    );
    assert!(document["elapsed_ms"].is_u64());
}

#[test]
fn an_error_of_the_tool_ends_with_1() {
    let place = Place::with_servers(&[("good", &[])]);
    let run = place.run(&["call", "good", "fail"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, "it did not work\n"));
    let run = place.run(&["call", "good", "fail", "--json"]);
    assert_eq!((run.code, &run.document()["ok"]), (1, &json!(false)));
    place.run(&["call", "good", "error"]).fails(1, &["server \"good\""]);
    place.run(&["call", "good", "crash"]).fails(1, &["server \"good\"", "signal 11"]);
}

#[test]
fn an_ad_hoc_server_takes_the_place_of_the_configuration() {
    let place = Place::new();
    let run = place.run(&["call", "echo", "message=5", "--", PROGRAM, "fixture"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "5\n"), "{}", run.stderr);
    let run = place.run(&["read", "fixture://text/2", "--", PROGRAM, "fixture"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "This is text 2.\n"), "{}", run.stderr);
    let run = place.run(&["prompt", "prompt-1", "topic=rain", "--", PROGRAM, "fixture"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "user: Say something about rain.\n"), "{}", run.stderr);
}

#[test]
fn list_shows_the_reachable_servers_beside_the_others() {
    let place = Place::with_servers(&[
        ("bad", &["--on", "start: stderr boom; exit 1"]),
        ("good", &[]),
        ("modern", &["--era", "modern"]),
    ]);
    let run = place.run(&["list"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("boom") && run.stdout.contains("echo") && run.stdout.contains("prompt-0"));
    assert!(!run.stdout.contains('\u{1b}'));
    let run = place.run(&["list", "--json"]);
    let document = run.document();
    assert_eq!(run.code, 3);
    let ok: Vec<&Value> =
        document["servers"].as_array().unwrap().iter().map(|server| &server["ok"]).collect();
    assert_eq!(ok, [false, true, true]);
    assert!(document["servers"][1]["tools"].as_array().unwrap().len() >= 6);
    assert_eq!(document["servers"][2]["resourceTemplates"][0]["uriTemplate"], "fixture://text/{number}");
    assert_eq!(place.run(&["list", "good"]).code, 0);
}

#[test]
fn status_waits_until_every_server_has_settled() {
    let place = Place::with_servers(&[("bad", &["--on", "start: exit 1"]), ("good", &[])]);
    let run = place.run(&["status", "--json"]);
    assert_eq!(run.code, 3);
    let document = run.document();
    let states: Vec<&Value> = document["servers"].as_array().unwrap().iter().map(|s| &s["state"]).collect();
    assert_eq!(states, ["parked", "ready"]);
    let run = place.run(&["status", "good"]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.lines().nth(1).unwrap().starts_with("good\tready\t"), "{}", run.stdout);
}

#[test]
fn one_shot_commands_make_one_attempt() {
    let place = Place::new();
    let transcript = place.folder.path().join("transcript");
    let flags = ["--transcript", transcript.to_str().unwrap(), "--on", "start: exit 1"];
    let args: Vec<&str> = [PROGRAM, "fixture"].into_iter().chain(flags).collect();
    let run = place.run(&[&["call", "x", "--"], args.as_slice()].concat());
    assert_eq!(run.code, 3, "{}", run.stderr);
    let seen = Transcript::read(&transcript);
    // The first end may have been the fault of the probe: the repeat without it belongs to the attempt.
    assert_eq!(seen.servers().len(), 2);
}

#[test]
fn f157_a_server_sees_only_what_it_is_granted() {
    let folder = tempfile::tempdir().unwrap();
    let transcript = folder.path().join("transcript");
    let flags = ["--on", "start: record-environment", "--transcript", transcript.to_str().unwrap()];
    let place = Place::with_servers(&[("s", &flags)]);
    let mut command = place.command(&["call", "s", "echo"]);
    command.env("HOST_TOKEN", "canary-7f3a").env("LD_LIBRARY_PATH", "/x");
    command.env("LOGNAME", OsStr::from_bytes(b"j\xf6rg"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let seen = Transcript::read(&transcript);
    let variables = &seen.events("environment").next().unwrap().value["variables"];
    assert_eq!(variables[MARK], json!(place.mark));
    assert!(variables["PATH"].is_string());
    assert!(variables["LOGNAME"].is_string(), "also what is no text: {variables}");
    assert!(variables["HOST_TOKEN"].is_null() && variables["LD_LIBRARY_PATH"].is_null(), "{variables}");
}

#[test]
fn f178_no_shell_reads_the_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let transcript = folder.path().join("transcript");
    let evil = "$(touch pwned); `id` | cat > x && \"a\" 'b' *\n\\";
    let flags = ["--tag", evil, "--transcript", transcript.to_str().unwrap()];
    let place = Place::with_servers(&[("s", &flags)]);
    assert_eq!(place.run(&["call", "s", "echo"]).code, 0);
    let seen = Transcript::read(&transcript);
    let start = &seen.events("start").next().unwrap().value["arguments"];
    assert!(start.as_array().unwrap().contains(&json!(evil)), "{start}");
}

#[test]
fn f176_what_a_server_writes_is_escaped() {
    let place =
        Place::with_servers(&[("evil", &["--on", "start: stderr \\x1b[2J\\x1b]52;c;ZXZpbA==\\x07; exit 1"])]);
    for arguments in [&["call", "evil", "x"][..], &["list"], &["status"], &["call", "evil", "x", "-vvvv"]] {
        let run = place.run(arguments);
        let shown = format!("{}{}", run.stdout, run.stderr);
        assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    }
}

#[test]
fn i039_no_configured_secret_is_ever_shown() {
    let place = Place::new();
    let secret = "canary-7f3a-0001";
    let servers = [
        ("dies", json!(["fixture", "--on", format!("start: stderr the key {secret} is wrong; exit 1")])),
        ("echoes", json!(["fixture", "--on", format!("tools/call: stderr {secret}; exit 1")])),
    ];
    let entry =
        |args: &Value| json!({"command": PROGRAM, "args": args, "env": {MARK: place.mark, "KEY": secret}});
    let servers: serde_json::Map<String, Value> =
        servers.iter().map(|(name, args)| ((*name).to_owned(), entry(args))).collect();
    place.write(&json!({"mcpServers": servers}).to_string());
    for arguments in [
        &["call", "dies", "x", "-vvvv"][..],
        &["call", "dies", "x", "--json", "-vvvv"],
        &["call", "echoes", "x", "-vvvv"],
        &["call", "echoes", "x", "--json"],
        &["list", "-vvvv"],
        &["list", "--json"],
        &["status", "-vvvv"],
        &["status", "--json"],
        &["config", "check"],
    ] {
        let run = place.run(arguments);
        let shown = format!("{}{}", run.stdout, run.stderr);
        assert!(!shown.contains("canary"), "{arguments:?}: {shown}");
    }
    let run = place.run(&["call", "dies", "x"]);
    run.fails(3, &["[secret]"]);
}

/// Starts a command that does not end by itself, and waits until it has started its server.
fn started(place: &Place, arguments: &[&str]) -> Child {
    let child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the server runs", || !checks::marked(&place.mark).is_empty());
    child
}

fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until(Duration::from_secs(10), what, condition));
}

fn interrupt(child: &Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::INT)
        .unwrap();
}

#[test]
fn f050_the_first_interrupt_drains() {
    let transcript = tempfile::tempdir().unwrap();
    let transcript = transcript.path().join("transcript");
    let place = Place::with_servers(&[("good", &["--transcript", transcript.to_str().unwrap()])]);
    let mut child = started(&place, &["call", "good", "hang"]);
    wait_for("the tool runs", || Transcript::read(&transcript).runs("hang") == 1);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let seen = Transcript::read(&transcript);
    assert_eq!(seen.cancelled().len(), 1, "the server is told");
    assert_eq!(seen.exit_code(seen.servers()[0]), Some(0), "the server ends by itself");
    assert!(seen.signals(seen.servers()[0]).is_empty(), "nobody signals it");
    assert!(checks::marked(&place.mark).is_empty());
}

#[test]
fn f050_the_second_interrupt_kills() {
    let transcript = tempfile::tempdir().unwrap();
    let transcript = transcript.path().join("transcript");
    let flags = ["--ignore-stdin-close", "--ignore-sigterm", "--transcript", transcript.to_str().unwrap()];
    let place = Place::with_servers(&[("stubborn", &flags)]);
    let mut child = started(&place, &["call", "stubborn", "hang"]);
    wait_for("the tool runs", || Transcript::read(&transcript).runs("hang") == 1);
    interrupt(&child);
    wait_for("it is asked to stop", || Transcript::read(&transcript).events("eof").count() == 1);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_for("nothing is left", || checks::marked(&place.mark).is_empty());
    let seen = Transcript::read(&transcript);
    assert!(seen.signals(seen.servers()[0]).is_empty(), "it was killed before SIGTERM was due");
}

#[test]
fn status_watch_shows_changes_until_interrupted() {
    let place = Place::with_servers(&[("good", &[])]);
    let mut child = started(&place, &["status", "--watch", "--json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    while next()["state"] != "ready" {}
    checks::marked(&place.mark).iter().for_each(|process| {
        let pid = rustix::process::Pid::from_raw(process.pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
    let lost = next();
    assert_eq!((&lost["name"], lost["state"] == "ready"), (&json!("good"), false), "{lost}");
    while next()["state"] != "ready" {}
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(checks::marked(&place.mark).is_empty());
}

#[test]
fn a_url_takes_the_place_of_a_server() {
    for script in [ServerScript::legacy(), ServerScript::modern()] {
        let web = Web::start(script);
        let place = Place::new();
        let called = place.run(&["call", &web.url, "echo", "message=hello", "--json"]);
        assert_eq!(called.code, 0, "{}", called.stderr);
        let document = called.document();
        assert_eq!((&document["ok"], &document["tool"]), (&json!(true), &json!("echo")));
        let listed = place.run(&["list", &web.url]);
        assert!(listed.code == 0 && listed.stdout.contains("echo"), "{}{}", listed.stdout, listed.stderr);
        let read = place.run(&["read", &web.url, "fixture://text/1"]);
        assert!(read.code == 0 && read.stdout.contains("This is text 1."), "{}{}", read.stdout, read.stderr);
    }
}

#[test]
fn m84_list_tells_which_tools_are_left_out_and_why() {
    let schema = json!({"properties": {"message": {"type": "number", "x-mcp-header": "Message"}}});
    let web = Web::start(ServerScript::modern().with_input_schema("echo", schema));
    let place = Place::new();
    let listed = place.run(&["list", &web.url, "--json"]).document();
    let server = &listed["servers"][0];
    assert_eq!(server["invalid"][0]["tool"], "echo");
    assert!(server["invalid"][0]["reason"].as_str().unwrap().contains("message"), "{server}");
    assert!(!server["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"));
    let listed = place.run(&["list", &web.url]);
    assert!(listed.stdout.contains("! echo cannot be called over HTTP: "), "{}", listed.stdout);
    place.run(&["call", &web.url, "echo", "message=1"]).fails(1, &["cannot be called over HTTP"]);
}

#[test]
fn a_configured_url_works_and_a_dead_one_says_so() {
    let web = Web::start(ServerScript::modern());
    let place = Place::new();
    let servers = json!({"web": {"type": "http", "url": web.url, "headers": {"X-Key": "canary-7f3a"}}});
    place.write(&json!({"mcpServers": servers}).to_string());
    let called = place.run(&["call", "web", "echo", "message=hello"]);
    assert_eq!((called.code, called.stdout.trim()), (0, "hello"), "{}", called.stderr);
    drop(web);
    place.run(&["call", "web", "echo", "message=hello"]).fails(3, &["web", "refuses connections"]);
    place.run(&["call", "ftp://x", "echo"]).fails(2, &["ftp://x"]);
    place.run(&["call", "http://", "echo"]).fails(2, &["not a complete http or https URL"]);
}
