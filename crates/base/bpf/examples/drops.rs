//! Prints the packets that the kernel drops in some network namespaces, for a while.
//!
//! ```sh
//! cargo run -p linerate-bpf --example drops -- 10 /run/netns/blue
//! ```

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use linerate_bpf::programs::drop_reasons::{DropReasons, Ignored};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().unwrap_or("5".into()).parse()?;
    let mut files: Vec<String> = arguments.collect();
    if files.is_empty() {
        files.push("/proc/self/ns/net".into());
    }
    let mut namespaces = Vec::new();
    for file in files {
        namespaces.push(u32::try_from(fs::metadata(file)?.ino())?);
    }
    let drops = DropReasons::attach(&namespaces, &Ignored::default())?;
    thread::sleep(Duration::from_secs(seconds));
    for (key, packets) in drops.read()? {
        let reason = drops.reason(key.reason);
        println!("{packets:>12} namespace {} interface {} {reason} at {:#x}", key.namespace, key.interface, key.place);
    }
    println!("{:>12} not counted", drops.uncounted()?);
    Ok(())
}
