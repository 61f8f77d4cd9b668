//! `-o` and `-p` in words of port names.

use std::collections::HashMap;

/// Most outputs of a balancer.
pub const OUTPUTS_MAX: usize = 1024;

/// The port names of each group: those of `-o` are the first, then one for each `-p`.
///
/// # Errors
/// A text that is no group, or too many outputs.
pub fn groups(outputs: &[String], pipes: &[String], input: &str) -> Result<Vec<Vec<String>>, String> {
    let mut groups = Vec::new();
    if !outputs.is_empty() {
        groups.push(outputs.to_vec());
    }
    // A name that comes again goes on counting where it left off.
    let mut next: HashMap<String, usize> = HashMap::new();
    for text in pipes {
        let (name, count) = split(text, input)?;
        let from = next.entry(name.clone()).or_default();
        groups.push((*from..*from + count).map(|number| numbered(&name, number)).collect());
        *from += count;
    }
    match groups.iter().map(Vec::len).sum::<usize>() {
        0 => Err("there is no output; name one with -o PORT, or several with -p NAME:COUNT".into()),
        count if count > OUTPUTS_MAX => Err(format!("{count} outputs are more than {OUTPUTS_MAX}")),
        _ => Ok(groups),
    }
}

/// `NAME:COUNT`, or `COUNT` with the input's name.
fn split(text: &str, input: &str) -> Result<(String, usize), String> {
    let (name, count) = text.rsplit_once(':').unwrap_or((default_name(input), text));
    let count = count.parse::<usize>().ok().filter(|count| (1..=OUTPUTS_MAX).contains(count));
    match count {
        Some(count) if !name.is_empty() => Ok((name.into(), count)),
        _ => Err(format!("-p {text}: write NAME:COUNT, with a count from 1 to {OUTPUTS_MAX}")),
    }
}

/// The input's name without backend, queue and options.
fn default_name(input: &str) -> &str {
    let name = input.split_once(':').map_or(input, |(_, name)| name);
    name.split([',', '@']).next().unwrap_or(name)
}

/// Port `number` of a group: the number stands for `{}`; without that, it follows the name as in netmap's pipes. A name without
/// a backend is that of a pipe between processes.
fn numbered(name: &str, number: usize) -> String {
    let port = if name.contains("{}") { name.replace("{}", &number.to_string()) } else { format!("{name}}}{number}") };
    if port.contains(':') { port } else { linerate_ports::shm(&port).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(outputs: &[&str], pipes: &[&str]) -> Result<Vec<Vec<String>>, String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_string()).collect::<Vec<_>>();
        groups(&owned(outputs), &owned(pipes), "xdp:eth1@0,native")
    }

    #[test]
    fn groups_are_named_as_netmaps_pipes() {
        assert_eq!(parse(&["a", "null:"], &[]).unwrap(), [["a", "null:"]]);
        assert_eq!(parse(&[], &["ids:2"]).unwrap(), [["shm:ids}0", "shm:ids}1"]]);
        assert_eq!(parse(&[], &["2"]).unwrap(), [["shm:eth1}0", "shm:eth1}1"]]);
        let two = parse(&["null:"], &["ids:1", "ids:2", "file:out-{}.pcap:2"]).unwrap();
        assert_eq!(two[1..3], [vec!["shm:ids}0".to_string()], vec!["shm:ids}1".into(), "shm:ids}2".into()]]);
        assert_eq!(two[3], ["file:out-0.pcap", "file:out-1.pcap"]);
        for bad in ["x", "x:", ":2", "x:0", "x:9999999", ""] {
            assert!(parse(&[], &[bad]).is_err(), "{bad}");
        }
        assert!(parse(&[], &[]).is_err());
        assert!(parse(&[], &["a:1024", "b:1"]).is_err());
    }
}
