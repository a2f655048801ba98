use std::ffi::OsString;
use std::process;
use std::str::FromStr;

use serde::Serialize;

pub(crate) const USAGE: &str = "\
Usage: bench_driver --scenario NAME (--server PROGRAM | --transport http --url URL) [FLAGS]

  --scenario NAME       connect, seq, conc, bulk, list, idle, cancel, shutdown, reconnect or flood
  --transport NAME      stdio or http [stdio]
  --server PROGRAM      the server's program; a path, or a name in PATH
  --server-arg ARG      an argument for it; repeatable
  --url URL             the server's endpoint
  --protocol VERSION    2025-11-25 or 2026-07-28 [2025-11-25]
  --n N                 calls or repetitions [by scenario]
  --warmup N            calls before that, not measured: seq, conc [200]
  --concurrency N       calls in flight: conc [1]
  --payload BYTES       length of the message [64]
  --tools N             tools listed: list [5000]
  --servers N           servers connected at once: idle [100], shutdown [32]
  --stubborn N          of which so many ignore the closing of stdin: shutdown [8]
  --hard                and SIGTERM, and leave a grandchild
  --seconds S           idle time: idle [10]
  --timeout-ms MS       the caller's timeout: cancel [100]
  --deadline-ms MS      a deadline on every measured call; 0 is the client's own [0]
  --runtime NAME        mt (two worker threads) or ct (one thread) [mt]
  --tag TEXT            passed to every server [bench-PID]";

/// The command line.
#[derive(Debug)]
pub(crate) struct Flags {
    pub(crate) scenario: Scenario,
    pub(crate) reach: Reach,
    pub(crate) protocol: Protocol,
    pub(crate) runtime: RuntimeKind,
    pub(crate) params: Params,
    pub(crate) tag: String,
}

/// Where the server is.
#[derive(Debug)]
pub(crate) enum Reach {
    Http { url: String },
    Stdio { program: String, args: Vec<String> },
}

/// The numbers of a scenario, as they stand in the line.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Params {
    pub(crate) n: u32,
    pub(crate) warmup: u32,
    pub(crate) concurrency: u32,
    pub(crate) payload: u32,
    pub(crate) tools: u32,
    pub(crate) servers: u32,
    pub(crate) stubborn: u32,
    pub(crate) hard: bool,
    pub(crate) seconds: f64,
    pub(crate) timeout_ms: u32,
    pub(crate) deadline_ms: u32,
}

/// Declares an enum whose variants are words of the command line and of the line that is printed.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub(crate) enum $name {
            $(#[serde(rename = $word)] $variant),+
        }

        impl FromStr for $name {
            type Err = &'static str;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(concat!("is none of", $(" ", $word),+)),
                }
            }
        }
    )+};
}

words! {
    /// Which vocabulary opens the connection; there is no fallback.
    Protocol { Legacy = "2025-11-25", Modern = "2026-07-28" }
    /// How many threads run tasks: one, or two workers.
    RuntimeKind { CurrentThread = "ct", MultiThread = "mt" }
    /// What is done and measured.
    Scenario {
        Bulk = "bulk",
        Cancel = "cancel",
        Conc = "conc",
        Connect = "connect",
        Flood = "flood",
        Idle = "idle",
        List = "list",
        Reconnect = "reconnect",
        Seq = "seq",
        Shutdown = "shutdown",
    }
    /// How the server is reached.
    Transport { Http = "http", Stdio = "stdio" }
}

impl Flags {
    /// Reads the arguments after the program's name; the error is one sentence for the user.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut words = words.into_iter();
        let mut given = Given::default();
        while let Some(flag) = words.next() {
            let flag = flag.into_string().map_err(|flag| format!("{flag:?} is no text"))?;
            if flag == "--hard" {
                given.hard = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let value = value.into_string().map_err(|value| format!("{flag}: {value:?} is no text"))?;
            given.set(&flag, value)?;
        }
        given.complete()
    }

    pub(crate) fn transport(&self) -> Transport {
        match self.reach {
            Reach::Http { .. } => Transport::Http,
            Reach::Stdio { .. } => Transport::Stdio,
        }
    }
}

/// What the command line has said so far.
#[derive(Default)]
struct Given {
    scenario: Option<Scenario>,
    transport: Option<Transport>,
    server: Option<String>,
    server_args: Vec<String>,
    url: Option<String>,
    protocol: Option<Protocol>,
    n: Option<u32>,
    warmup: Option<u32>,
    concurrency: Option<u32>,
    payload: Option<u32>,
    tools: Option<u32>,
    servers: Option<u32>,
    stubborn: Option<u32>,
    hard: bool,
    seconds: Option<f64>,
    timeout_ms: Option<u32>,
    deadline_ms: Option<u32>,
    runtime: Option<RuntimeKind>,
    tag: Option<String>,
}

impl Given {
    fn set(&mut self, flag: &str, value: String) -> Result<(), String> {
        match flag {
            "--scenario" => self.scenario = Some(word(flag, &value)?),
            "--transport" => self.transport = Some(word(flag, &value)?),
            "--server" => self.server = Some(value),
            "--server-arg" => self.server_args.push(value),
            "--url" => self.url = Some(value),
            "--protocol" => self.protocol = Some(word(flag, &value)?),
            "--n" => self.n = Some(at_least_one(flag, &value)?),
            "--warmup" => self.warmup = Some(count(flag, &value)?),
            "--concurrency" => self.concurrency = Some(at_least_one(flag, &value)?),
            "--payload" => self.payload = Some(count(flag, &value)?),
            "--tools" => self.tools = Some(count(flag, &value)?),
            "--servers" => self.servers = Some(at_least_one(flag, &value)?),
            "--stubborn" => self.stubborn = Some(count(flag, &value)?),
            "--seconds" => self.seconds = Some(seconds(flag, &value)?),
            "--timeout-ms" => self.timeout_ms = Some(count(flag, &value)?),
            "--deadline-ms" => self.deadline_ms = Some(count(flag, &value)?),
            "--runtime" => self.runtime = Some(word(flag, &value)?),
            "--tag" => self.tag = Some(value),
            // Meant for another driver.
            private if private.starts_with("--x-") => {}
            unknown => return Err(format!("there is no flag {unknown}")),
        }
        Ok(())
    }

    /// Puts defaults where nothing was said.
    fn complete(self) -> Result<Flags, String> {
        let scenario = self.scenario.ok_or("--scenario is missing")?;
        let reach = match self.transport.unwrap_or(Transport::Stdio) {
            Transport::Http => Reach::Http { url: self.url.ok_or("--transport http needs --url")? },
            Transport::Stdio => Reach::Stdio {
                program: self.server.ok_or("--transport stdio needs --server")?,
                args: self.server_args,
            },
        };
        let params = Params {
            n: self.n.unwrap_or(match scenario {
                Scenario::Seq => 5000,
                Scenario::Conc => 20_000,
                Scenario::Bulk => 30,
                Scenario::Flood | Scenario::List => 10,
                _ => 20,
            }),
            warmup: self.warmup.unwrap_or(200),
            concurrency: self.concurrency.unwrap_or(1),
            payload: self.payload.unwrap_or(64),
            tools: self.tools.unwrap_or(5000),
            servers: self.servers.unwrap_or(if scenario == Scenario::Idle { 100 } else { 32 }),
            stubborn: self.stubborn.unwrap_or(8),
            hard: self.hard,
            seconds: self.seconds.unwrap_or(10.0),
            timeout_ms: self.timeout_ms.unwrap_or(100),
            deadline_ms: self.deadline_ms.unwrap_or(0),
        };
        Ok(Flags {
            scenario,
            reach,
            protocol: self.protocol.unwrap_or(Protocol::Legacy),
            runtime: self.runtime.unwrap_or(RuntimeKind::MultiThread),
            params,
            tag: self.tag.unwrap_or_else(|| format!("bench-{}", process::id())),
        })
    }
}

fn word<T: FromStr<Err = &'static str>>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|wrong| format!("{flag}: `{value}` {wrong}"))
}

fn count(flag: &str, value: &str) -> Result<u32, String> {
    value.parse().map_err(|wrong| format!("{flag}: `{value}`: {wrong}"))
}

fn at_least_one(flag: &str, value: &str) -> Result<u32, String> {
    match count(flag, value)? {
        0 => Err(format!("{flag} must be at least 1")),
        number => Ok(number),
    }
}

fn seconds(flag: &str, value: &str) -> Result<f64, String> {
    let seconds: f64 = value.parse().map_err(|wrong| format!("{flag}: `{value}`: {wrong}"))?;
    // What a sleep can take; also refuses what is no number.
    if (0.0..=1e9).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("{flag}: `{value}` is no duration"))
    }
}
