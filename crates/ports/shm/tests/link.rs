//! Two pools on one socket, as two processes have them: joined, ended, joined again, refused.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, OpenError, Port, PortSpec, Readiness};
use linerate_port_shm::{ShmPort, open, pool};

const PATIENCE: Duration = Duration::from_secs(60);
const CONFIG: PoolConfig = PoolConfig { frames: 1024, frame_size: 2048 };

fn spec(path: &Path, options: &str) -> PortSpec {
    format!("shm:{}{options}", path.display()).parse().unwrap()
}

fn side(spec: &PortSpec) -> Result<(Pool, ShmPort), OpenError> {
    let pool = pool(spec, CONFIG)?;
    let port = open(spec.clone(), &pool)?.into_port();
    Ok((pool, port))
}

/// Sends packets with rising numbers from `*next` on, as many as go at once.
fn send(pool: &mut Pool, port: &mut ShmPort, next: &mut u32, count: usize) {
    let mut batch = Batch::new(pool, count);
    pool.alloc(&mut batch, count, 60);
    for index in 0..batch.len() {
        batch.packet_mut(index)[..4].copy_from_slice(&(*next + index as u32).to_be_bytes());
    }
    *next += port.transmit(&mut batch).unwrap() as u32;
    port.wait(Interest::Transmit, 0).unwrap();
    pool.free(&mut batch);
}

/// Receives what is there and checks its numbers.
fn receive(pool: &mut Pool, port: &mut ShmPort, next: &mut u32) {
    let mut batch = Batch::new(pool, 64);
    port.receive(&mut batch).unwrap();
    for packet in batch.iter() {
        assert_eq!(u32::from_be_bytes(packet[..4].try_into().unwrap()), *next);
        *next += 1;
    }
    pool.free(&mut batch);
    port.wait(Interest::Receive, 0).unwrap();
}

/// Keeps a port going until told to stop, as its program would; returns what it received.
fn run(mut pool: Pool, mut port: ShmPort, stop: &AtomicBool, echo: bool) -> (Pool, ShmPort, u64) {
    let mut batch = Batch::new(&pool, 64);
    while !stop.load(Ordering::Acquire) {
        port.receive(&mut batch).unwrap();
        if echo {
            port.transmit(&mut batch).unwrap();
        }
        pool.free(&mut batch);
        port.wait(Interest::Receive, 1_000_000).unwrap();
    }
    let received = port.stats().unwrap().rx_packets;
    (pool, port, received)
}

/// Stops the other thread also when this one fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn two_sides_exchange_far_more_packets_than_there_are_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link");
    let spec = spec(&path, ",ring=64");
    let (first_pool, first_port) = side(&spec).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| run(first_pool, first_port, &stop, true));
        let _stopping = Stopping(&stop);
        let (mut pool, mut port) = side(&spec).unwrap();
        assert_eq!(pool.region().frames(), 2048, "the first one's memory");
        let (mut next, mut seen) = (0, 0);
        let deadline = Instant::now() + PATIENCE;
        while seen < 20_000 {
            if next < seen + 40 {
                send(&mut pool, &mut port, &mut next, 16);
            }
            receive(&mut pool, &mut port, &mut seen);
            assert!(Instant::now() < deadline, "{seen} of {next} came back");
        }
        stop.store(true, Ordering::Release);
        let (_, mut first, received) = echo.join().unwrap();
        assert!(received >= u64::from(seen));
        assert_eq!(first.stats().unwrap().tx_dropped(), 0);
    });
    assert!(!path.exists(), "the last one takes the socket away");
}

#[test]
fn either_side_may_go_and_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link");
    let spec = spec(&path, "");
    let mut survivor = side(&spec).unwrap();
    for round in 0..8 {
        let stop = AtomicBool::new(false);
        let (pool, port) = survivor;
        let (kept, other) = std::thread::scope(|scope| {
            let kept = scope.spawn(|| run(pool, port, &stop, true));
            let _stopping = Stopping(&stop);
            let (mut pool, mut port) = side(&spec).unwrap();
            let (mut next, mut seen) = (0, 0);
            let deadline = Instant::now() + PATIENCE;
            while seen < 3000 {
                if next < seen + 40 {
                    send(&mut pool, &mut port, &mut next, 16);
                }
                receive(&mut pool, &mut port, &mut seen);
                assert!(Instant::now() < deadline, "round {round}: {seen} of {next} came back");
            }
            // What is still under way dies with whoever goes.
            stop.store(true, Ordering::Release);
            let (kept_pool, kept_port, _) = kept.join().unwrap();
            ((kept_pool, kept_port), (pool, port))
        });
        // In turn the older and the younger one goes; whoever stays is found by the next one.
        let (stays, goes) = if round % 2 == 0 { (kept, other) } else { (other, kept) };
        drop(goes);
        let (mut pool, mut port) = stays;
        let deadline = Instant::now() + PATIENCE;
        let mut batch = Batch::new(&pool, 64);
        while pool.available() + 64 < 1024 || port.receive(&mut batch).unwrap() > 0 {
            pool.free(&mut batch);
            port.wait(Interest::Receive, 0).unwrap();
            assert!(Instant::now() < deadline, "round {round}: {} free", pool.available());
        }
        survivor = (pool, port);
    }
    drop(survivor);
    assert!(!path.exists());
}

#[test]
fn once_ends_with_the_other_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link");
    let (mut pool, mut port) = side(&spec(&path, ",once")).unwrap();
    assert_eq!(port.wait(Interest::Receive, 0).unwrap(), Readiness::TimedOut, "nobody has been there yet");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let (mut pool, mut port) = side(&spec(&path, "")).unwrap();
            let mut next = 0;
            send(&mut pool, &mut port, &mut next, 30);
            next
        });
        let mut seen = 0;
        let deadline = Instant::now() + PATIENCE;
        while port.wait(Interest::Receive, 10_000_000).unwrap() != Readiness::Closed {
            receive(&mut pool, &mut port, &mut seen);
            assert!(Instant::now() < deadline);
        }
        assert_eq!(other.join().unwrap(), seen);
    });
    let mut batch = Batch::new(&pool, 4);
    pool.alloc(&mut batch, 4, 60);
    assert_eq!(port.transmit(&mut batch).unwrap(), 4);
    assert_eq!(port.stats().unwrap().tx_dropped(), 4);
    drop((port, batch));
    assert!(pool.is_whole(), "everything that the other side had is back");
}

#[test]
fn sockets_of_others_are_refused_and_stale_ones_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link");
    std::fs::write(&path, "no socket").unwrap();
    assert!(side(&spec(&path, "")).err().unwrap().cause.contains("no socket"));
    std::fs::remove_file(&path).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let (_pool, port) = side(&spec(&path, "")).unwrap();
    drop((_pool, port));
    // A pool of another memory, and a link that is opened twice.
    let other = Pool::new(CONFIG).unwrap();
    assert!(open(spec(&path, ""), &other).err().unwrap().cause.contains("another memory"));
    let (pool, _port) = side(&spec(&path, "")).unwrap();
    assert!(open(spec(&path, ""), &pool).err().unwrap().cause.contains("before"));
    drop((pool, _port));
    for bad in ["shm:", "shm:a@1", "shm:a,ring=1", "shm:a,rings=2", "shm:/nonexistent/folder/a"] {
        let spec: PortSpec = bad.parse().unwrap();
        assert!(side(&spec).is_err(), "{bad}");
    }
    if std::fs::metadata(folder.path()).unwrap().uid() != 0 {
        eprintln!("skipped: a socket of another user: only root can make one");
        return;
    }
    let _listener = UnixListener::bind(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
    assert!(side(&spec(&path, "")).err().unwrap().cause.contains("belongs to user 12345"));
}

#[test]
fn what_is_no_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link");
    let listener = UnixListener::bind(&path).unwrap();
    for answer in [&b""[..], b"LNRTbusy", b"LNRTshm1", b"hello, this is another protocol altogether"] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                std::io::Write::write_all(&mut stream, answer).unwrap();
            });
            let error = side(&spec(&path, "")).err().unwrap();
            assert!(error.cause.contains(if answer == b"LNRTbusy" { "in use" } else { "another language" }), "{error}");
        });
    }
}
