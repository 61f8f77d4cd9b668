//! A load as users describe it: flags, or a TOML file with the same words.
//!
//! ```toml
//! connections = 100
//! rate = "1k..10k@30s,10k"
//! duration = "60s"
//!
//! [[request]]
//! url = "http://198.18.5.1/index.html"
//! weight = 9
//! expect-status = [200]
//!
//! [[request]]
//! url = "http://198.18.5.1/form"
//! method = "POST"
//! headers = ["Content-Type: text/plain"]
//! body = "hello"
//! ```

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use linerate_units::{TextError, bytes, count, duration_ns, positive_duration_ns};
use serde::Deserialize;

use crate::plan::{Answer, Expected, Kind, NUMBER_LEN, Pacing, Plan, Target};
use crate::rate::{Gaps, Rate};
use crate::url::{Host, Scheme, Url};

/// Longest request, and longest expected body, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Longest datagram, over IPv4 and IPv6.
const DATAGRAM_MAX: usize = 65_487;
/// Most kinds of requests.
const KINDS_MAX: usize = 100_000;
/// Most connections at a time.
const CONNECTIONS_MAX: u64 = 16_000_000;

/// A load, as given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Connections at a time [default: 1; with `connection-rate`: as many as it takes].
    pub connections: Option<Text>,
    /// Requests per second, as `10k`, or `1k..10k@30s,10k`; without it, each connection loops.
    pub rate: Option<Text>,
    /// Connections per second.
    pub connection_rate: Option<Text>,
    /// Gaps of rates, and pauses, are exponential.
    pub poisson: bool,
    /// Requests of a connection.
    pub requests_per_connection: Option<Text>,
    /// Requests under way on a connection.
    pub pipeline: Option<Text>,
    /// Pause between an answer and the next request.
    pub think: Option<String>,
    /// Longest time of an answer.
    pub timeout: Option<String>,
    /// Longest time of a handshake.
    pub connect_timeout: Option<String>,
    /// Time at the beginning that rates and latency leave out.
    pub warmup: Option<String>,
    /// Time over which the first connections are begun.
    pub ramp_up: Option<String>,
    /// Time in which requests are begun.
    pub duration: Option<String>,
    /// Requests after which none is begun any more.
    pub count: Option<Text>,
    /// Start of the pseudo-random numbers.
    pub seed: Option<u64>,
    /// The kinds of requests.
    #[serde(rename = "request")]
    pub requests: Vec<RequestConfig>,
}

/// A kind of request, as given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RequestConfig {
    /// `http`, `https`, `tcp`, `tls` or `udp`, host, port and path.
    pub url: String,
    /// For reports [default: method and URL].
    pub name: Option<String>,
    /// How often it is chosen, beside the others [default: 1].
    pub weight: Option<f64>,
    /// HTTP method [default: GET, or POST with a body].
    pub method: Option<String>,
    /// HTTP header fields, as `Name: value`.
    pub headers: Vec<String>,
    /// HTTP body, or the bytes that are sent.
    pub body: Option<String>,
    /// The same from a file.
    pub body_file: Option<PathBuf>,
    /// Of `tcp`, `tls` and `udp`: bytes to send [default: 64].
    pub request: Option<Text>,
    /// Of `tcp`, `tls` and `udp`: bytes of the answer; without it, the answer is the request.
    pub response: Option<Text>,
    /// HTTP statuses that are right.
    pub expect_status: Vec<u16>,
    /// Bytes of the body of each response.
    pub expect_bytes: Option<Text>,
    /// A file that the body of each response is compared with.
    pub expect_file: Option<PathBuf>,
}

/// A number with a unit: a string, or a plain number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// `"10k"`.
    Text(String),
    /// `10000`.
    Number(u64),
}

impl Text {
    fn text(&self) -> String {
        match self {
            Text::Text(text) => text.clone(),
            Text::Number(number) => number.to_string(),
        }
    }

    fn count(&self, key: &str, least: u64, most: u64) -> Result<u64, String> {
        let number = count(&self.text()).map_err(|error| format!("{key}: {error}"))?;
        if !(least..=most).contains(&number) {
            return Err(format!("{key}: {number} is not from {least} to {most}"));
        }
        Ok(number)
    }

    fn bytes(&self, key: &str) -> Result<u64, String> {
        let number = bytes(&self.text()).map_err(|error| format!("{key}: {error}"))?;
        if number > BYTES_MAX {
            return Err(format!("{key}: {number} bytes are more than {BYTES_MAX}"));
        }
        Ok(number)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::Text(text)
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not TOML, or has unknown words; with the place.
    pub fn parse(text: &str) -> Result<Config, String> {
        let wrong = |error: toml::de::Error| TextError::at(text, error.span().unwrap_or(0..0), error.message());
        toml::from_str(text).map_err(|error| wrong(error).to_string())
    }

    /// Checks everything, reads the files that it names, and makes the requests.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn plan(&self) -> Result<Plan, String> {
        let time = |key: &str, text: &Option<String>, default_ns: u64| match text {
            Some(text) => duration_ns(text).map_err(|error| format!("{key}: {error}")),
            None => Ok(default_ns),
        };
        let positive = |key: &str, text: &Option<String>, default_ns: u64| match text {
            Some(text) => positive_duration_ns(text).map_err(|error| format!("{key}: {error}")),
            None => Ok(default_ns),
        };
        let number = |key: &str, text: &Option<Text>, default: u64, most: u64| match text {
            Some(text) => text.count(key, 1, most),
            None => Ok(default),
        };
        let pacing = match (&self.rate, &self.connection_rate) {
            (Some(_), Some(_)) => return Err("rate and connection-rate: only one of them can begin requests".into()),
            (Some(rate), None) => {
                Pacing::Requests(Rate::parse(&rate.text()).map_err(|error| format!("rate: {error}"))?)
            }
            (None, Some(rate)) => {
                Pacing::Connections(Rate::parse(&rate.text()).map_err(|error| format!("connection-rate: {error}"))?)
            }
            (None, None) => Pacing::Closed,
        };
        let by_connections = matches!(pacing, Pacing::Connections(_));
        let connections = if by_connections { CONNECTIONS_MAX } else { 1 };
        let one_request = by_connections && self.requests_per_connection.is_none();
        let (targets, kinds) = self.requests(one_request || self.closes_after_one())?;
        let pipeline = number("pipeline", &self.pipeline, 1, 1024)? as u32;
        if pipeline > 1 && targets.iter().any(|target| target.scheme == Scheme::Udp) {
            return Err("pipeline: over UDP, a connection has one request under way; raise connections instead".into());
        }
        let timeout_ns = positive("timeout", &self.timeout, 10_000_000_000)?;
        Ok(Plan {
            targets,
            kinds,
            gaps: if self.poisson { Gaps::Poisson } else { Gaps::Constant },
            connections: number("connections", &self.connections, connections, CONNECTIONS_MAX)? as u32,
            ramp_up_ns: time("ramp-up", &self.ramp_up, 0)?,
            pipeline,
            requests_per_connection: number(
                "requests-per-connection",
                &self.requests_per_connection,
                if by_connections { 1 } else { u64::MAX },
                u64::MAX,
            )?,
            think_ns: time("think", &self.think, 0)?,
            timeout_ns,
            connect_timeout_ns: positive("connect-timeout", &self.connect_timeout, timeout_ns)?,
            warmup_ns: time("warmup", &self.warmup, 0)?,
            duration_ns: positive(
                "duration",
                &self.duration,
                if self.count.is_some() { u64::MAX / 4 } else { 10_000_000_000 },
            )?,
            requests_max: number("count", &self.count, u64::MAX, u64::MAX)?,
            drain_ns: timeout_ns.min(5_000_000_000),
            close_wait_ns: 1_000_000_000,
            sources: Vec::new(),
            seed: self.seed.unwrap_or(1),
            pacing,
        })
    }

    fn closes_after_one(&self) -> bool {
        self.requests_per_connection.as_ref().is_some_and(|text| text.count("", 1, 1).is_ok())
    }

    fn requests(&self, one_request: bool) -> Result<(Vec<Target>, Vec<Kind>), String> {
        if self.requests.is_empty() {
            return Err("there is no request; give a URL, as http://198.18.5.1/ or tcp://198.18.5.1:7".into());
        }
        if self.requests.len() > KINDS_MAX {
            return Err(format!("{} kinds of requests are more than {KINDS_MAX}", self.requests.len()));
        }
        let (mut targets, mut kinds): (Vec<Target>, Vec<Kind>) = (Vec::new(), Vec::new());
        let mut known: Vec<(Scheme, Host, u16)> = Vec::new();
        for request in &self.requests {
            let url = Url::parse(&request.url)?;
            let weight = request.weight.unwrap_or(1.0);
            if !(weight > 0.0 && weight <= 1e9) {
                return Err(format!("{}: the weight {weight} is not above 0", request.url));
            }
            let key = (url.scheme, url.host.clone(), url.port);
            let at = match known.iter().position(|other| *other == key) {
                Some(at) => at,
                None => {
                    let address = match &url.host {
                        Host::Address(address) if address.is_unspecified() => {
                            return Err(format!("{}: {address} is no server", request.url));
                        }
                        Host::Address(address) => *address,
                        Host::Name(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    };
                    let address = SocketAddr::new(address, url.port);
                    let (scheme, name) = (url.scheme, url.server_name());
                    targets.push(Target { scheme, address, name, kinds: Vec::new(), share: 0.0 });
                    known.push(key);
                    known.len() - 1
                }
            };
            targets[at].share += weight;
            let sum = targets[at].share;
            targets[at].kinds.push((kinds.len() as u32, sum));
            kinds.push(request.kind(&url, one_request)?);
        }
        let total: f64 = targets.iter().map(|target| target.share).sum();
        for target in &mut targets {
            target.kinds.iter_mut().for_each(|(_, sum)| *sum /= target.share);
            target.share /= total;
        }
        Ok((targets, kinds))
    }
}

impl RequestConfig {
    fn kind(&self, url: &Url, one_request: bool) -> Result<Kind, String> {
        let wrong = |what: String| format!("{}: {what}", self.url);
        let body = match (&self.body, &self.body_file) {
            (Some(_), Some(_)) => return Err(wrong("body and body-file: only one of them can be the body".into())),
            (Some(body), None) => Some(body.clone().into_bytes()),
            (None, Some(path)) => {
                Some(std::fs::read(path).map_err(|error| wrong(format!("{}: {error}", path.display())))?)
            }
            (None, None) => None,
        };
        let kind = if url.scheme.is_http() {
            self.http(url, body, one_request)
        } else {
            self.plain(body, url.scheme == Scheme::Udp)
        };
        kind.map_err(wrong)
    }

    fn http(&self, url: &Url, body: Option<Vec<u8>>, one_request: bool) -> Result<Kind, String> {
        if self.request.is_some() || self.response.is_some() {
            return Err("request and response sizes are for tcp, tls and udp; give body and expect-bytes".into());
        }
        let method = self.method.as_deref().unwrap_or(if body.is_some() { "POST" } else { "GET" });
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
            return Err(format!("not a method: {method:?} (write GET, POST, PUT, ...)"));
        }
        let mut head = format!("{method} {} HTTP/1.1\r\n", url.path);
        let given = |name: &str| self.headers.iter().any(|field| field_name(field).eq_ignore_ascii_case(name));
        if !given("host") {
            head += &format!("Host: {}\r\n", url.authority);
        }
        if !given("user-agent") {
            head += concat!("User-Agent: linerate/", env!("CARGO_PKG_VERSION"), "\r\n");
        }
        for field in &self.headers {
            if field_name(field).is_empty()
                || !field.contains(':')
                || field.bytes().any(|byte| byte < b' ' && byte != b'\t')
            {
                return Err(format!("not a header field: {field:?} (write \"Name: value\")"));
            }
            head += &format!("{field}\r\n");
        }
        if one_request && !given("connection") {
            head += "Connection: close\r\n";
        }
        if let Some(body) = &body
            && !given("content-length")
            && !given("transfer-encoding")
        {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        let mut bytes = head.into_bytes();
        bytes.extend(body.unwrap_or_default());
        let body = self
            .expect_file
            .as_ref()
            .map(|path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display())));
        let expected = Expected {
            to_head: method == "HEAD",
            statuses: self.expect_status.clone(),
            body_len: self.expect_bytes.as_ref().map(|text| text.bytes("expect-bytes")).transpose()?,
            body: body.transpose()?,
        };
        let name = self.name.clone().unwrap_or_else(|| format!("{method} {}", self.url));
        Ok(Kind { name, bytes, answer: Answer::Http(expected), is_numbered: false })
    }

    fn plain(&self, body: Option<Vec<u8>>, is_udp: bool) -> Result<Kind, String> {
        let is_http = self.method.is_some() || !self.headers.is_empty() || !self.expect_status.is_empty();
        if is_http || self.expect_bytes.is_some() || self.expect_file.is_some() {
            return Err("method, headers and expect-... are for http and https; give request and response".into());
        }
        let size = self.request.as_ref().map(|text| text.bytes("request")).transpose()?;
        let is_made = body.is_none();
        let bytes = match (body, size) {
            (Some(_), Some(_)) => return Err("request and body: only one of them can be what is sent".into()),
            (Some(body), None) => body,
            // Bytes that differ from their neighbours, so that an answer that lost some is a wrong one.
            (None, size) => (0..size.unwrap_or(64)).map(|at| (at % 251) as u8).collect(),
        };
        if bytes.is_empty() {
            return Err("a request has at least one byte".into());
        }
        if is_udp && bytes.len() > DATAGRAM_MAX {
            return Err(format!("a datagram has at most {DATAGRAM_MAX} bytes, and not {}", bytes.len()));
        }
        let answer = match &self.response {
            Some(text) => Answer::Bytes(text.bytes("response")?),
            None => Answer::Echo,
        };
        let is_numbered = is_udp && is_made && answer == Answer::Echo && bytes.len() >= NUMBER_LEN;
        Ok(Kind { name: self.name.clone().unwrap_or_else(|| self.url.clone()), bytes, answer, is_numbered })
    }
}

fn field_name(field: &str) -> &str {
    field.split(':').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        Config::parse(text)?.plan()
    }

    #[test]
    fn a_file_becomes_requests() {
        let plan = plan(
            "connections = 10\nrate = \"1k\"\n[[request]]\nurl = \"http://198.18.5.1/a\"\nweight = 3\n\
             [[request]]\nurl = \"http://198.18.5.1/b\"\nbody = \"hello\"\nheaders = [\"A: b\"]\n\
             [[request]]\nurl = \"tcp://[fd00::1]:7\"\nrequest = 3\nresponse = \"1k\"\nweight = 4\n",
        )
        .unwrap();
        assert_eq!((plan.targets.len(), plan.kinds.len()), (2, 3));
        assert_eq!(plan.targets[0].kinds, [(0, 0.75), (1, 1.0)]);
        assert_eq!((plan.connections_of(0), plan.connections_of(1)), (5, 5));
        let text = String::from_utf8(plan.kinds[1].bytes.clone()).unwrap();
        let agent = concat!("User-Agent: linerate/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            text,
            format!("POST /b HTTP/1.1\r\nHost: 198.18.5.1\r\n{agent}\r\nA: b\r\nContent-Length: 5\r\n\r\nhello")
        );
        assert_eq!((plan.kinds[2].bytes.as_slice(), &plan.kinds[2].answer), (&[0u8, 1, 2][..], &Answer::Bytes(1000)));
    }

    #[test]
    fn one_request_a_connection_says_so() {
        let text = "requests-per-connection = 1\n[[request]]\nurl = \"http://198.18.5.1/\"\n";
        assert!(
            String::from_utf8(plan(text).unwrap().kinds[0].bytes.clone()).unwrap().contains("Connection: close\r\n")
        );
        let plan = plan("connection-rate = \"10\"\n[[request]]\nurl = \"http://198.18.5.1/\"\n").unwrap();
        assert_eq!(plan.requests_per_connection, 1);
    }

    #[test]
    fn names_wait_for_their_addresses() {
        let text = "[[request]]\nurl = \"http://b.example/\"\n[[request]]\nurl = \"tcp://a.example:7\"\n\
             [[request]]\nurl = \"http://b.example/x\"\n[[request]]\nurl = \"http://1.2.3.4/\"\n";
        let plan = plan(text).unwrap();
        assert_eq!(plan.names(), ["a.example", "b.example"]);
        assert!(String::from_utf8_lossy(&plan.kinds[0].bytes).contains("Host: b.example\r\n"));
    }

    #[test]
    fn mistakes_are_refused_with_words() {
        for (text, word) in [
            ("", "URL"),
            ("connections = 0\n[[request]]\nurl = \"1.2.3.4\"", "connections"),
            ("rate = \"1\"\nconnection-rate = \"1\"\n[[request]]\nurl = \"1.2.3.4\"", "only one"),
            ("speed = 1", "speed"),
            ("[[request]]\nurl = \"http://0.0.0.0/\"", "no server"),
            ("[[request]]\nurl = \"http://1.2.3.4/\"\nheaders = [\"A\"]", "header field"),
            ("[[request]]\nurl = \"http://1.2.3.4/\"\nheaders = [\"A: b\\r\\nC: d\"]", "header field"),
            ("[[request]]\nurl = \"http://1.2.3.4/\"\nmethod = \"GET /\"", "method"),
            ("[[request]]\nurl = \"http://1.2.3.4/\"\nweight = 0", "weight"),
            ("[[request]]\nurl = \"ftp://1.2.3.4/\"", "no scheme"),
            ("[[request]]\nurl = \"tcp://1.2.3.4:5\"\nmethod = \"GET\"", "http"),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
