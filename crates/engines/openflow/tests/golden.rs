//! Every message that an installed os-ken ships as bytes, decoded and encoded again.
//!
//! The folder is found through `python3`, or that of `conformance/`, or named by `LINERATE_OSKEN_PACKETS`
//! (`.../os_ken/tests/packet_data/of13`).

use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_openflow::{Controllers, ErrorKind, Hello, Message, Session, SessionConfig, decode, encode};

/// What a switch answers to requests with parts of experimenters (Nicira, ONF, os-ken's own), which nobody but the experimenter knows. Where a
/// name begins with two of these, the first counts.
const REFUSED: [(&str, ErrorKind); 13] = [
    ("4-2-", ErrorKind::BadActionBadExperimenter),
    ("4-45-", ErrorKind::MeterModFailedBadBand),
    ("4-55-", ErrorKind::TableFeaturesFailedBadType),
    // The VLAN ID has no `OFPVID_PRESENT`; fields of an experimenter stand behind it.
    ("4-60-", ErrorKind::BadMatchBadValue),
    // Nicira's fields are in the match.
    ("libofproto-OFP13-flow_mod", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-match_", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-action_conjunction.", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-action_ct.", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-action_ct_clear.", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-action_ct_exec.", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-action_learn.", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-action_resubmit.", ErrorKind::BadMatchBadField),
    ("ovs-ofctl-of13-action_", ErrorKind::BadActionBadExperimenter),
];

#[test]
fn messages_of_os_ken_are_the_same_bytes_again() {
    let Some(folder) = folder() else { return };
    let paths = packets(&folder);
    for path in &paths {
        let (name, bytes) = read(path);
        let (xid, message) = decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut again = Vec::new();
        encode(&mut again, xid, &message).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again, bytes, "{name}: {message:?}");
    }
    println!("{} messages of os-ken are the same again", paths.len());
    assert!(paths.len() >= 104, "{} in {}", paths.len(), folder.display());
}

/// A request that a switch would half understand is refused as a whole.
#[test]
fn a_switch_refuses_what_experimenters_ask_for() {
    let Some(folder) = folder() else { return };
    let mut refused = 0;
    for path in packets(&folder) {
        let (name, bytes) = read(&path);
        let wanted = REFUSED.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, error)| *error);
        if let Some(wanted) = wanted {
            assert_eq!(answer(&bytes), Some(wanted), "{name}");
            refused += 1;
        }
    }
    println!("{refused} requests with parts of experimenters are refused");
    assert!(refused >= 30, "{refused} in {}", folder.display());
}

/// The error that a switch's session answers to a message of a controller.
fn answer(bytes: &[u8]) -> Option<ErrorKind> {
    let mut controllers = Controllers::new();
    let id = controllers.join();
    let mut session = Session::new(SessionConfig::default(), id, 0);
    let mut hello = Vec::new();
    encode(&mut hello, 0, &Message::Hello(Hello { versions: Some(1 << 4) })).expect("a short message");
    session.receive(&hello, 0);
    assert!(session.next_request(&mut controllers).is_none());
    let hello_bytes = session.output().len();
    session.consume(hello_bytes);
    // The last of a request's messages.
    let mut bytes = bytes.to_vec();
    if let [_, 18, _, _, _, _, _, _, _, _, _, flags, ..] = &mut bytes[..] {
        *flags = 0;
    }
    session.receive(&bytes, 0);
    session.next_request(&mut controllers);
    match decode(session.output()) {
        Ok((_, Message::Error(error))) => error.error(),
        _ => None,
    }
}

fn packets(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "packet"));
    paths.sort();
    paths
}

fn read(path: &Path) -> (&str, Vec<u8>) {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    (name, std::fs::read(path).expect("a packet"))
}

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("LINERATE_OSKEN_PACKETS") {
        return Some(folder.into());
    }
    // The second is what `conformance/of13.py` makes.
    let found = ["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/conformance/venv/bin/python")]
        .into_iter()
        .find_map(folder_of);
    if found.is_none() {
        println!("skipped: os-ken with its packet data is not installed (LINERATE_OSKEN_PACKETS names a folder)");
    }
    found
}

fn folder_of(python: &str) -> Option<PathBuf> {
    let find = "import os_ken, os; print(os.path.dirname(os_ken.__file__))";
    let output = Command::new(python).args(["-c", find]).output().ok().filter(|output| output.status.success())?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()).join("tests/packet_data/of13");
    folder.is_dir().then_some(folder)
}
