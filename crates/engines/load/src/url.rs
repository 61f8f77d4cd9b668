//! Where requests go: `SCHEME://HOST[:PORT][/PATH]`.

use core::net::{IpAddr, Ipv6Addr};

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`: HTTP/1.1 over TCP.
    Http,
    /// `https`: the same over TLS.
    Https,
    /// `tcp`: bytes there and bytes back.
    Tcp,
    /// `tls`: the same over TLS.
    Tls,
    /// `udp`: a datagram there and one back.
    Udp,
}

impl Scheme {
    /// True if requests and answers are HTTP/1.1.
    #[inline]
    pub fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    /// True if its connections are under TLS.
    #[inline]
    pub fn is_tls(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Tls)
    }

    fn port(self) -> Option<u16> {
        match self {
            Scheme::Http => Some(80),
            Scheme::Https => Some(443),
            Scheme::Tcp | Scheme::Tls | Scheme::Udp => None,
        }
    }
}

/// A server: an address, or a name that is still to be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name.
    Name(String),
}

/// A URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The protocol.
    pub scheme: Scheme,
    /// The server.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Path and query, from the `/` on.
    pub path: String,
    /// Host and port as the `Host` field has them.
    pub authority: String,
}

impl Url {
    /// Reads a URL. Without a scheme it is HTTP.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let name = scheme;
        let scheme = match name {
            "http" => Scheme::Http,
            "tcp" => Scheme::Tcp,
            "https" => Scheme::Https,
            "tls" => Scheme::Tls,
            "udp" => Scheme::Udp,
            other => return Err(format!("{text}: no scheme {other}; there are http, https, tcp, tls and udp")),
        };
        if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
            return Err(format!("{text:?}: a URL has no spaces; write %20"));
        }
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = split_port(authority).ok_or_else(|| format!("{text}: write SCHEME://HOST:PORT/PATH"))?;
        let port = match port {
            Some(port) => port.parse().map_err(|_| format!("{text}: {port} is not a port (1 to 65535)"))?,
            None => scheme.port().ok_or_else(|| format!("{text}: the port is missing; write {authority}:PORT"))?,
        };
        if port == 0 {
            return Err(format!("{text}: 0 is not a port (1 to 65535)"));
        }
        if !path.is_empty() && path != "/" && scheme.port().is_none() {
            return Err(format!("{text}: {path} says nothing there; write {name}://{authority}"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        // What follows # stays with the user agent (RFC 3986 section 3.5).
        let path = path.split('#').next().unwrap_or("/").to_owned();
        Ok(Url { scheme, host: host_of(host), port, path, authority: authority.to_owned() })
    }

    /// The server without its port.
    pub fn server_name(&self) -> String {
        match &self.host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name.clone(),
        }
    }
}

/// Host and port of `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() {
        return None;
    }
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port))),
        None => rest.is_empty().then_some((host, None)),
    }
}

fn host_of(text: &str) -> Host {
    text.parse().map_or_else(|_| Host::Name(text.to_owned()), Host::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart() {
        let url = Url::parse("http://198.18.5.1/a/b?c=d#e").unwrap();
        assert_eq!(
            (url.scheme, url.port, url.path.as_str(), url.authority.as_str()),
            (Scheme::Http, 80, "/a/b?c=d", "198.18.5.1")
        );
        assert_eq!(url.host, Host::Address("198.18.5.1".parse().unwrap()));
        let url = Url::parse("tcp://[fd00::1]:8443").unwrap();
        assert_eq!((url.scheme, url.port, url.path.as_str()), (Scheme::Tcp, 8443, "/"));
        assert_eq!(url.authority, "[fd00::1]:8443");
        assert_eq!(url.server_name(), "fd00::1");
        assert_eq!(Url::parse("tcp://h.example:7").unwrap().host, Host::Name("h.example".into()));
        assert_eq!(Url::parse("198.18.5.1:8080/x").unwrap().port, 8080);
        assert_eq!(Url::parse("http://a?q").unwrap().path, "/?q");
    }

    #[test]
    fn a_mistake_says_what_to_write() {
        for wrong in [
            "ftp://a/",
            "tls://a",
            "tcp://a",
            "http://",
            "http://a:b/",
            "http://a:0/",
            "http://a:70000/",
            "http://[::1/",
            "http://[x]/",
            "http://a b/",
            "http://[::1]x/",
            "udp://1.2.3.4",
            "udp://1.2.3.4:7?response=9",
            "tcp://1.2.3.4:7/a",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
