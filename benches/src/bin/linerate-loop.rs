//! `linerate-loop NAME PACKETS` runs one hot loop once and prints what it took; `linerate-loop` alone lists the names.
//! A profiler is pointed at this: no thread, timer or table beside the loop itself.

use std::process::ExitCode;

use linerate_benches::loops::LOOPS;
use linerate_benches::say;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, packets] = &arguments[..] else {
        LOOPS.iter().for_each(|one| say!("{:24} {}", one.name, one.what));
        return ExitCode::SUCCESS;
    };
    let (Some(one), Ok(packets)) = (LOOPS.iter().find(|one| one.name == name), packets.parse()) else {
        eprintln!("no such loop, or no number of packets");
        return ExitCode::from(2);
    };
    let run = (one.run)([0, 1], packets);
    say!("{} {} {}", run.packets, run.wall_ns, run.core_ns);
    ExitCode::SUCCESS
}
