//! What a recorder is given is in its files, or counted as lost: rotation, stalls, full disks, kills, compression.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_capture::{FileHead, RotationPolicy};
use linerate_pcapng::{CaptureError, CaptureReader, Direction, InterfaceHead, PacketHead, Statistics};
use linerate_recorder_loop::{Intake, Method, Recorder, RecorderError, Settings};
use tempfile::TempDir;

const TIME_NS: u64 = 1_700_000_000_000_000_000;
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn settings(path: &Path) -> Settings {
    let interfaces = ["veth0", "veth1"].map(|name| InterfaceHead { name: name.into(), ..InterfaceHead::default() });
    let head = FileHead { interfaces: interfaces.into(), ..FileHead::default() };
    Settings { buffer_bytes: 1 << 20, queue_bytes: 4 << 20, ..Settings::new(path.to_str().unwrap(), head) }
}

/// Packet `number` of interface `interface`, its number in its bytes; true when it was taken.
fn give(intake: &mut Intake, interface: u32, number: u64, len: usize) -> bool {
    let direction = Direction::Inbound;
    let head = PacketHead { interface, time_ns: TIME_NS + number, original_len: 1514, direction };
    intake.packet(&head, len, |place| {
        place.fill(interface as u8);
        place[..8].copy_from_slice(&number.to_be_bytes());
    })
}

/// Numbers of the packets of each interface in a file, up to its end or to what is cut off.
fn read(path: &Path) -> (Vec<Vec<u64>>, Option<CaptureError>) {
    let mut reader = CaptureReader::new(File::open(path).unwrap()).unwrap();
    let mut numbers = vec![Vec::new(); 2];
    loop {
        match reader.next() {
            Ok(Some(head)) => {
                let number = u64::from_be_bytes(*reader.packet().first_chunk().unwrap());
                assert_eq!(head.time_ns, TIME_NS + number);
                assert_eq!(reader.packet()[8..], vec![head.interface as u8; head.len - 8]);
                numbers[head.interface as usize].push(number);
            }
            Ok(None) => return (numbers, None),
            Err(error) => return (numbers, Some(error)),
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Gives a packet as often as it takes until there is a buffer for it.
fn insist(intake: &mut Intake, interface: u32, number: u64, len: usize) {
    let deadline = Instant::now() + PATIENCE;
    while !give(intake, interface, number, len) {
        assert!(Instant::now() < deadline, "no buffer comes back");
        std::thread::yield_now();
    }
}

#[test]
fn everything_that_two_rings_give_is_in_the_file() {
    for (name, method) in [("a.pcapng", Method::Best), ("b.pcapng", Method::Buffered), ("c.pcap", Method::Best)] {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join(name);
        let (recorder, intakes) = Recorder::start(Settings { method, ..settings(&path) }, 2).unwrap();
        std::thread::scope(|scope| {
            for (interface, mut intake) in intakes.into_iter().enumerate() {
                // pcap has no interfaces, so the test has one there.
                let interface = if name.ends_with("pcap") { 0 } else { interface as u32 };
                scope.spawn(move || (0..20_000).for_each(|number| insist(&mut intake, interface, number, 60)));
            }
        });
        recorder.drain();
        for intake in 0..2 {
            let counts = recorder.intake(intake);
            assert_eq!((recorder.written(intake), counts.taken - counts.dropped), ((20_000, 0), 20_000));
        }
        let counts =
            Statistics { interface: 1, delivered: Some(20_000), comment: "all".into(), ..Statistics::default() };
        recorder.statistics(counts);
        let report = recorder.finish();
        assert_eq!((report.files, report.removed, &report.failure), (1, 0, &None));
        let file = std::fs::metadata(&path).unwrap();
        assert_eq!((report.bytes, file.permissions().mode() & 0o777), (file.len(), 0o600));
        let (numbers, error) = read(&path);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(numbers.iter().map(Vec::len).sum::<usize>(), 40_000);
        if name.ends_with("pcapng") {
            assert!(numbers.iter().all(|numbers| numbers.is_sorted()));
            let mut reader = CaptureReader::new(File::open(&path).unwrap()).unwrap();
            while reader.next().unwrap().is_some() {}
            assert_eq!(reader.interfaces()[1].statistics.as_ref().unwrap().delivered, Some(20_000));
        }
    }
}

#[test]
fn files_rotate_by_packets_to_the_packet_and_the_oldest_go() {
    for name in ["a.pcapng", "a.pcap"] {
        let directory = TempDir::new().unwrap();
        let policy = RotationPolicy { file_packets: Some(333), files: Some(4), ..RotationPolicy::default() };
        let settings = Settings { policy, ..settings(&directory.path().join(name)) };
        let (recorder, mut intakes) = Recorder::start(settings, 1).unwrap();
        for number in 0..10_000 {
            insist(&mut intakes[0], 0, number, 1000);
        }
        drop(intakes);
        let report = recorder.finish();
        // 30 files of 333 and one of ten.
        assert_eq!((report.files, report.removed), (31, 27));
        let mut next = 27 * 333;
        let left = files(directory.path());
        assert_eq!(left.len(), 4);
        for path in left {
            let (numbers, error) = read(&path);
            assert!(error.is_none() && numbers[0].len() <= 333);
            for number in &numbers[0] {
                assert_eq!(*number, next);
                next += 1;
            }
        }
        assert_eq!(next, 10_000);
    }
}

#[test]
fn files_rotate_by_size_and_the_total_is_bounded() {
    for (name, method) in [("a.pcapng", Method::Best), ("a.pcapng", Method::Buffered), ("a.pcap", Method::Best)] {
        let directory = TempDir::new().unwrap();
        let policy =
            RotationPolicy { file_bytes: Some(100_000), total_bytes: Some(450_000), ..RotationPolicy::default() };
        let settings = Settings { policy, method, ..settings(&directory.path().join(name)) };
        let (recorder, mut intakes) = Recorder::start(settings, 1).unwrap();
        for number in 0..5_000 {
            insist(&mut intakes[0], 0, number, 1000);
            if number % 1000 == 0 {
                let total: u64 =
                    files(directory.path()).iter().filter_map(|path| path.metadata().ok()).map(|m| m.len()).sum();
                assert!(total <= 450_000, "{total}");
            }
        }
        drop(intakes);
        let report = recorder.finish();
        let left = files(directory.path());
        assert_eq!(left.len() as u64, report.files - report.removed);
        assert!(left.len() >= 4, "{}", left.len());
        let sizes: Vec<u64> = left.iter().map(|path| path.metadata().unwrap().len()).collect();
        assert!(sizes.iter().all(|size| *size <= 100_000), "{sizes:?}");
        let numbers: Vec<u64> = left.iter().flat_map(|path| read(path).0.swap_remove(0)).collect();
        assert!(numbers.is_sorted() && numbers.last() == Some(&4_999));
        assert_eq!(numbers.len() as u64, 5_000 - numbers[0]);
    }
}

#[test]
fn no_file_is_begun_without_a_packet_for_it() {
    let by_packets = RotationPolicy { file_packets: Some(333), ..RotationPolicy::default() };
    for (policy, packets, count) in [(by_packets, 999, 3), (by_packets, 0, 1), (by_packets, 1000, 4)] {
        let directory = TempDir::new().unwrap();
        let settings = Settings { policy, ..settings(&directory.path().join("a.pcapng")) };
        let (recorder, mut intakes) = Recorder::start(settings, 1).unwrap();
        (0..packets).for_each(|number| insist(&mut intakes[0], 0, number, 60));
        drop(intakes);
        assert_eq!(recorder.finish().files, count, "{packets} packets");
        let there: Vec<usize> = files(directory.path()).iter().map(|path| read(path).0[0].len()).collect();
        assert_eq!((there.len() as u64, there.iter().sum::<usize>() as u64), (count, packets));
        // The file that is made at the start shows early that files can be written.
        assert!(packets == 0 || there.iter().all(|packets| *packets > 0), "{there:?}");
    }
}

#[test]
fn a_file_ends_when_it_is_time_though_nothing_comes() {
    let directory = TempDir::new().unwrap();
    let policy = RotationPolicy { file_ns: Some(20_000_000), ..RotationPolicy::default() };
    let (recorder, mut intakes) =
        Recorder::start(Settings { policy, ..settings(&directory.path().join("a.pcapng")) }, 1).unwrap();
    assert!(give(&mut intakes[0], 0, 0, 60));
    intakes[0].flush();
    let deadline = Instant::now() + PATIENCE;
    let is_open = |path: &Path| {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|target| target == path)
    };
    let first = files(directory.path()).swap_remove(0);
    while is_open(&first) {
        assert!(Instant::now() < deadline, "the first file does not end");
        std::thread::yield_now();
    }
    // The next one is begun for its first packet.
    assert_eq!(files(directory.path()).len(), 1);
    assert!(give(&mut intakes[0], 0, 1, 60));
    drop(intakes);
    assert_eq!(recorder.finish().files, 2);
    assert_eq!(files(directory.path()).iter().map(|path| read(path).0[0].clone()).collect::<Vec<_>>(), [[0], [1]]);
}

#[test]
fn a_ring_that_pauses_hands_over_after_a_while() {
    let directory = TempDir::new().unwrap();
    let (recorder, mut intakes) = Recorder::start(settings(&directory.path().join("a.pcapng")), 1).unwrap();
    let intake = &mut intakes[0];
    let written = |intake: &mut Intake, now_ns| {
        intake.settle(now_ns);
        recorder.drain();
        recorder.written(0).0
    };
    const START_NS: u64 = 77_000_000_000;
    assert_eq!(written(intake, 0), 0, "nothing waits");
    assert!(give(intake, 0, 0, 60));
    assert_eq!(written(intake, START_NS), 0);
    assert_eq!(recorder.intake(0).taken, 1, "the counts are shown at once");
    assert!(give(intake, 0, 1, 60));
    assert_eq!(written(intake, START_NS + 249_000_000), 0);
    assert_eq!(written(intake, START_NS + 250_000_000), 2);
    // The next one waits as long, from when it is first seen.
    assert!(give(intake, 0, 2, 60));
    assert_eq!(written(intake, START_NS + 600_000_000), 2);
    assert_eq!(written(intake, START_NS + 850_000_000), 3);
    drop(intakes);
    assert_eq!(recorder.finish().failure, None);
}

#[test]
fn a_disk_that_stands_still_stalls_no_ring() {
    let directory = TempDir::new().unwrap();
    let fifo = directory.path().join("fifo");
    if !Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo");
        return;
    }
    let go = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut file = File::open(&fifo).unwrap();
            while !go.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let (recorder, mut intakes) = Recorder::start(settings(&fifo), 1).unwrap();
        // Far more than the pipe and the queue hold; nobody reads meanwhile.
        let taken = (0..200_000).filter(|number| give(&mut intakes[0], 0, *number, 1000)).count() as u64;
        let counts = intakes[0].counts();
        assert_eq!((counts.taken, counts.dropped), (200_000, 200_000 - taken));
        assert!(counts.dropped > 150_000, "{counts:?}");
        go.store(true, Ordering::Release);
        drop(intakes);
        recorder.drain();
        assert_eq!(recorder.written(0), (taken, 0));
        let report = recorder.finish();
        assert_eq!((report.queue.capacity, report.queue.highest), (4, 4));
        let bytes = reader.join().unwrap();
        let mut read = CaptureReader::new(&bytes[..]).unwrap();
        assert_eq!((0..).find(|_| read.next().unwrap().is_none()), Some(taken));
    });
}

#[test]
fn what_cannot_be_written_is_lost_and_said() {
    let directory = TempDir::new().unwrap();
    let refusal = |settings| Recorder::start(settings, 1).err().unwrap();
    let nowhere = refusal(settings(&directory.path().join("no/such.pcapng")));
    assert!(matches!(nowhere, RecorderError::File { .. }) && nowhere.to_string().contains("no/such"), "{nowhere}");
    let policy = RotationPolicy { file_packets: Some(1), ..RotationPolicy::default() };
    let output = refusal(Settings { policy, ..settings(Path::new("-")) });
    assert!(matches!(output, RecorderError::RotatedOutput));
    if Path::new("/dev/full").exists() {
        assert!(refusal(settings(Path::new("/dev/full"))).to_string().contains("os error 28"));
    }
    // The folder goes away between two files.
    let folder = directory.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let (recorder, mut intakes) =
        Recorder::start(Settings { policy, ..settings(&folder.join("a.pcapng")) }, 1).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    (0..5).for_each(|number| assert!(give(&mut intakes[0], 0, number, 60)));
    drop(intakes);
    recorder.drain();
    assert_eq!(recorder.written(0), (1, 4));
    assert!(recorder.failure().is_some_and(|failure| failure.contains("os error 2")), "{:?}", recorder.failure());
    assert!(recorder.finish().failure.is_some());
}

/// Name of the variable that tells a child where to work.
const FOLDER: &str = "LINERATE_TEST_FOLDER";

fn child(test: &str, folder: &Path) -> String {
    let program = std::env::current_exe().unwrap();
    format!("{FOLDER}={} exec {} --exact --nocapture {test}", folder.display(), program.display())
}

#[test]
fn a_full_disk_ends_in_a_whole_record_and_every_packet_is_accounted_for() {
    let directory = TempDir::new().unwrap();
    let mount = format!("mount -t tmpfs -o size=3000k none {0} && cd {0}", directory.path().display());
    let line = format!("{mount} && {}", child("child_on_a_small_disk", directory.path()));
    let output = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-c", &line]).output();
    match output {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("small disk: done"), "{output:?}");
        }
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => panic!("{output:?}"),
        Ok(output) => eprintln!("skipped: no mount of one's own: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("skipped: no unshare: {error}"),
    }
}

#[test]
fn child_on_a_small_disk() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    for name in ["a.pcapng", "b.pcap", "c.pcapng.zst"] {
        let path = Path::new(&folder).join(name);
        let (recorder, mut intakes) = Recorder::start(settings(&path), 1).unwrap();
        let mut state = 1u64;
        for number in 0..5_000 {
            // What zstd cannot make smaller.
            let head = PacketHead { time_ns: TIME_NS + number, original_len: 1514, ..PacketHead::default() };
            let fill = |place: &mut [u8]| {
                place.chunks_exact_mut(8).for_each(|chunk| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    chunk.copy_from_slice(&(state >> 11).to_le_bytes());
                });
            };
            let mut fill = Some(fill);
            let deadline = Instant::now() + PATIENCE;
            while !intakes[0].packet(&head, 1000, |place| fill.take().unwrap()(place)) {
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
        }
        let taken = intakes[0].counts().taken - intakes[0].counts().dropped;
        drop(intakes);
        recorder.drain();
        let (written, lost) = recorder.written(0);
        assert_eq!((written + lost, taken), (5_000, 5_000), "{name}");
        assert!(lost > 1_000, "{name}: {lost}");
        let report = recorder.finish();
        assert!(report.failure.as_ref().is_some_and(|failure| failure.contains("os error 28")), "{name} {report:?}");
        let file = File::open(&path).unwrap();
        let count =
            |mut reader: CaptureReader<Box<dyn Read>>| (0..).find(|_| reader.next().unwrap().is_none()).unwrap();
        let input: Box<dyn Read> =
            if name.ends_with("zst") { Box::new(zstd::Decoder::new(file).unwrap()) } else { Box::new(file) };
        let read: u64 = count(CaptureReader::new(input).unwrap());
        assert_eq!(read, written, "{name}");
        assert!(name.ends_with("zst") || written > 2_500, "{name}: {written}");
        std::fs::remove_file(&path).unwrap();
    }
    println!("small disk: done");
}

#[test]
fn a_killed_recorder_leaves_a_file_that_reads_up_to_its_last_whole_block() {
    let directory = TempDir::new().unwrap();
    let mut running = Command::new("sh")
        .args(["-c", &child("child_that_records_for_ever", directory.path())])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let path = directory.path().join("a.pcapng");
    let deadline = Instant::now() + PATIENCE;
    while path.metadata().map_or(0, |metadata| metadata.len()) < 8 << 20 {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::yield_now();
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let (numbers, error) = read(&path);
    assert!(numbers[0].len() > 10_000 && numbers[0].is_sorted());
    assert!(matches!(error, None | Some(CaptureError::Truncated { .. })), "{error:?}");
}

#[test]
fn child_that_records_for_ever() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (_recorder, mut intakes) = Recorder::start(settings(&Path::new(&folder).join("a.pcapng")), 1).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut number = 0;
    // Whoever started this ends it; if not, it ends by itself, and before the disk is full.
    while Instant::now() < deadline && number < 1 << 20 {
        number += u64::from(give(&mut intakes[0], 0, number, 500));
    }
}

#[test]
fn compressed_files_are_read_by_zstd_and_tshark() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng.zst");
    let (recorder, mut intakes) = Recorder::start(settings(&path), 1).unwrap();
    for number in 0..30_000 {
        insist(&mut intakes[0], 0, number, 100);
    }
    drop(intakes);
    let report = recorder.finish();
    assert!(report.bytes < 30_000 * 132 / 4, "{report:?}");
    let mut reader = CaptureReader::new(zstd::Decoder::new(File::open(&path).unwrap()).unwrap()).unwrap();
    assert_eq!((0..).find(|_| reader.next().unwrap().is_none()), Some(30_000));
    match Command::new("tshark").args(["-n", "-T", "fields", "-e", "frame.number", "-r"]).arg(&path).output() {
        Ok(output) if output.status.success() => {
            assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 30_000, "{output:?}");
        }
        Ok(output) => eprintln!("skipped: this tshark: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("skipped: no tshark: {error}"),
    }
}
