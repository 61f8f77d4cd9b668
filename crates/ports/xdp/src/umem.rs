//! The pool's region as UMEM, and how its frames are shared out between the ports.
//!
//! ```text
//!   pool      frame 0          frame 1          frame 2
//!             |....packet...|  |.........pkt.|  |....
//!   sent:     any place inside the frame: the pool's colours stay
//!   received: aligned:   256 bytes after the start of the frame, the kernel's place
//!             coloured:  where the pool would put the packet, too; see [`crate::placement::Placement`]
//! ```
//! Each socket registers the region for itself: sockets of one pool then need not know each other, and a frame that one port
//! received can be sent by another without copying. Which frames a socket's kernel side holds is written down in its
//! [`crate::loans::Loans`].

use std::io;
use std::time::{Duration, Instant};

use linerate_mem::{Pool, Region};

use crate::abi::{self, RingKind};
use crate::placement::Placement;
use crate::sys::XdpSocket;

/// Least number of frames to receive into that makes sense.
const RECEIVE_FRAMES_MIN: usize = 64;

/// Says why a pool cannot be a UMEM, if it cannot.
pub(crate) fn check_shape(region: &Region) -> Result<(), String> {
    let size = region.frame_size();
    if (abi::CHUNK_BYTES_MIN..=abi::CHUNK_BYTES_MAX).contains(&size) {
        return Ok(());
    }
    Err(format!("AF_XDP takes frames of 2048 or 4096 bytes, the pool has {size}"))
}

/// Frames that each of `queues` sockets may lend to the kernel to receive into: what the ring holds, but never more than half
/// of what is free in the pool, so that ports opened later, senders and batches find some too.
pub(crate) fn receive_share(pool: &Pool, ring: u32, queues: usize) -> Result<u32, String> {
    let share = pool.available() / 2 / queues.max(1);
    if share < RECEIVE_FRAMES_MIN {
        let free = pool.available();
        return Err(format!("the pool has {free} free frames, too few to receive on {queues} queue(s)"));
    }
    Ok(ring.min(u32::try_from(share).unwrap_or(u32::MAX)))
}

/// Finds out when a device has let go of a queue's frames.
///
/// Closing a zero-copy socket does not end the device's access at once: the kernel takes the queue down later, from a work
/// queue. Until then the queue cannot be bound again, and that can be observed.
#[derive(Debug)]
pub(crate) struct ReleaseProbe {
    /// Made while the port was opened, so it is of the interface's namespace.
    socket: XdpSocket,
    ifindex: u32,
    queue: u32,
}

impl ReleaseProbe {
    pub(crate) fn new(ifindex: u32, queue: u32) -> io::Result<ReleaseProbe> {
        Ok(ReleaseProbe { socket: XdpSocket::new()?, ifindex, queue })
    }

    /// Waits until the queue is free (or its interface is gone); false if it is not within a second.
    pub(crate) fn wait(&self) -> bool {
        let Ok(region) = Region::map(2, abi::CHUNK_BYTES_MIN) else { return false };
        let made = self.socket.register(&region, Placement::Aligned).and_then(|()| {
            self.socket.create_ring(RingKind::Fill, 1)?;
            self.socket.create_ring(RingKind::Completion, 1)?;
            self.socket.create_ring(RingKind::Transmit, 1)
        });
        match made.and_then(|()| bind_patiently(&self.socket, self.ifindex, self.queue, libc::XDP_COPY)) {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENODEV),
        }
    }
}

/// How long a queue may stay busy after the socket that had it was closed; 30 to 60 ms were seen.
const TEARDOWN: Duration = Duration::from_secs(1);

/// Binds, and tries again while the kernel still takes an earlier socket of that queue down.
pub(crate) fn bind_patiently(socket: &XdpSocket, ifindex: u32, queue: u32, flags: u16) -> io::Result<()> {
    patiently(TEARDOWN, || socket.bind(ifindex, queue, flags), |error| error.raw_os_error() == Some(libc::EBUSY))
}

/// Tries again every few milliseconds while `attempt` fails with what `passes` by itself, for at most `limit`.
pub(crate) fn patiently<T, E>(
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T, E>,
    passes: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let deadline = Instant::now() + limit;
    loop {
        match attempt() {
            Err(error) if passes(&error) && Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_mem::PoolConfig;
    use linerate_sys::netdev::Netdev;
    use linerate_sys::netns::NetNs;
    use linerate_sys::veth::{self, VethEnd};

    #[test]
    fn frames_are_shared_out_by_halves() {
        let pool = |frames| Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap();
        assert_eq!(receive_share(&pool(8192), 8192, 1), Ok(4096));
        assert_eq!(receive_share(&pool(8192), 8192, 4), Ok(1024));
        assert_eq!(receive_share(&pool(32768), 8192, 1), Ok(8192));
        assert!(receive_share(&pool(64), 8192, 1).is_err());
    }

    #[test]
    fn only_chunks_of_a_page_or_half_a_page_are_possible() {
        for (size, possible) in [(1024, false), (2048, true), (4096, true), (8192, false)] {
            let region = Region::map(8, size).unwrap();
            assert_eq!(check_shape(&region).is_ok(), possible, "{size}");
        }
    }

    #[test]
    fn a_probe_waits_for_the_queue() {
        let Some(namespace) = linerate_testkit::or_skip("no network namespace", NetNs::anonymous()) else { return };
        let end = |name| VethEnd { name, namespace: &namespace };
        let pair = veth::create(end("near"), end("far"), 1);
        let Some(()) = linerate_testkit::or_skip("no veth pair", pair) else { return };
        let body = || {
            let device = Netdev::open("near").unwrap();
            device.set_up(true).unwrap();
            let ifindex = device.index().unwrap();
            let holder = ReleaseProbe::new(ifindex, 0).unwrap();
            assert!(holder.wait());
            let waiter = ReleaseProbe::new(ifindex, 0).unwrap();
            assert!(!waiter.wait(), "the queue is bound");
            drop(holder);
            assert!(ReleaseProbe::new(ifindex, 0).unwrap().wait());
            assert!(ReleaseProbe::new(999, 0).unwrap().wait(), "an interface that is gone holds nothing");
        };
        namespace.run(body).unwrap();
    }

    #[test]
    fn patience_ends() {
        let mut attempts = 0;
        let result = patiently(
            Duration::from_millis(1),
            || {
                attempts += 1;
                Err::<(), _>(attempts)
            },
            |_| true,
        );
        assert!(result.is_err() && attempts > 1);
        assert_eq!(patiently(TEARDOWN, || Err::<(), _>(7), |_| false), Err(7));
    }
}
