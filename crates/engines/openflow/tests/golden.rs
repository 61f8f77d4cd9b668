//! Every message that an installed os-ken ships as bytes, decoded and encoded again.
//!
//! The folder is found through `python3`, or that of `conformance/`, or named by `LINERATE_OSKEN_PACKETS`
//! (`.../os_ken/tests/packet_data/of13`).

use std::path::PathBuf;
use std::process::Command;

use linerate_openflow::{ErrorKind, Message, decode, encode};

/// Messages with parts of experimenters (Nicira, ONF, os-ken's own), which are refused: nobody but the experimenter knows what they ask for.
const REFUSED: [(&str, ErrorKind); 6] = [
    ("4-12-", ErrorKind::BadActionBadExperimenter),
    ("4-2-", ErrorKind::BadActionBadExperimenter),
    ("4-45-", ErrorKind::MeterModFailedBadBand),
    ("4-55-", ErrorKind::TableFeaturesFailedBadType),
    ("4-56-", ErrorKind::TableFeaturesFailedBadType),
    // The VLAN ID in these two has no `OFPVID_PRESENT`; fields of an experimenter stand behind it.
    ("4-60-", ErrorKind::BadMatchBadValue),
];
const REFUSED_BY_PREFIX: [&str; 4] =
    ["ovs-ofctl-of13-", "libofproto-OFP13-flow_", "libofproto-OFP13-packet_in.", "4-59-"];

/// Properties of experimenters in it are skipped, so that the bytes differ and the values do not.
const SHORTENED: &str = "4-36-ofp_queue_get_config_reply.packet";

#[test]
fn messages_of_os_ken_are_the_same_bytes_again() {
    let Some(folder) = folder() else { return };
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "packet"));
    paths.sort();
    let (mut same, mut refused) = (0, 0);
    for path in &paths {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let bytes = std::fs::read(path).expect("a packet");
        match decode(&bytes) {
            Ok((xid, message)) => {
                check_again(name, &bytes, xid, &message);
                same += 1;
            }
            Err(error) => {
                check_refusal(name, error);
                refused += 1;
            }
        }
    }
    println!("{same} messages of os-ken are the same again, {refused} with parts of experimenters are refused");
    assert!(same >= 65, "{same} of {} in {}", paths.len(), folder.display());
}

fn check_again(name: &str, bytes: &[u8], xid: u32, message: &Message) {
    let mut again = Vec::new();
    encode(&mut again, xid, message).unwrap_or_else(|error| panic!("{name}: {error}"));
    if name == SHORTENED {
        assert_eq!(decode(&again).as_ref(), Ok(&(xid, message.clone())), "{name}");
    } else {
        assert_eq!(again, bytes, "{name}: {message:?}");
    }
}

fn check_refusal(name: &str, error: ErrorKind) {
    if let Some((_, wanted)) = REFUSED.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        assert_eq!(error, *wanted, "{name}");
        return;
    }
    let known = REFUSED_BY_PREFIX.iter().any(|prefix| name.starts_with(prefix));
    let by_experimenter =
        [ErrorKind::BadActionBadExperimenter, ErrorKind::BadMatchBadField, ErrorKind::BadMatchBadValue];
    assert!(known && by_experimenter.contains(&error), "{name}: {error}");
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
