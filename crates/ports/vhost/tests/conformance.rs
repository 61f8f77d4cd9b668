//! The contract of ports: a device, with a driver made for the test at the other end.

mod common;

use std::sync::{Arc, Mutex};

use common::{Driver, EVENT_INDEX, INDIRECT, MERGEABLE, PROTOCOL, Place, Shape, VERSION_1};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::Port;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Facts, Harness, Link, ProbePort, check_all};

struct Vhost {
    /// Which port sends.
    device_sends: bool,
    mtu: usize,
    shape: Shape,
    /// Where the link opened last has its socket.
    place: Option<Place>,
}

impl Vhost {
    /// A port takes the place of one whose process was killed.
    fn kill_a_holder(&mut self) -> Result<Vec<String>, String> {
        let place = Place::new();
        let child = Child::start("child_port", place.path().to_str().unwrap()).map_err(|error| error.to_string())?;
        child.end(Signal::Kill).map_err(|error| error.to_string())?;
        let spec = format!("vhost:{}", place.path().display());
        let pool = common::pool();
        let reopened = linerate_port_vhost::open(spec.parse().unwrap(), &pool);
        Ok(reopened.err().map(|error| error.to_string()).into_iter().collect())
    }
}

impl Harness for Vhost {
    fn name(&self) -> String {
        let (from, to) = if self.device_sends { ("device", "driver") } else { ("driver", "device") };
        format!("{from} to {to}, MTU {}, {:?}", self.mtu, self.shape)
    }

    fn facts(&self) -> Facts {
        let per_packet = (self.mtu + 30).div_ceil(self.shape.buffer).max(self.shape.descriptors);
        let window = usize::from(self.shape.entries) / 2 / per_packet;
        let starts = vec![0, 65_535, 65_500, 32_768];
        Facts { starts, wrap_packets: 1000, window, lossless: true, ..Facts::default() }
    }

    fn pool(&self) -> PoolConfig {
        // The longest packet takes several frames.
        PoolConfig { frames: 4096, frame_size: if self.mtu > 1600 { 2048 } else { 1024 } }
    }

    fn open(&mut self, pool: &Pool, start: u32) -> Result<Link, String> {
        let place = Place::new();
        let device = place.open(&format!(",mtu={}", self.mtu), pool);
        let shape = Shape { start: start as u16, ..self.shape };
        let driver = Driver::connect(&place.path(), shape).map_err(|error| error.to_string())?;
        let sending = Arc::new(Mutex::new(driver));
        let receiving = Arc::clone(&sending);
        let len_max = device.caps().frame_len_max;
        let driver = ProbePort::new(
            "driver",
            pool,
            len_max,
            Some(Box::new(move |packet| Ok(sending.lock().unwrap().send(0, packet)))),
            Some(Box::new(move || Ok(receiving.lock().unwrap().receive(0)))),
        );
        self.place = Some(place);
        let (device, driver): (Box<dyn Port>, Box<dyn Port>) = (Box::new(device), Box::new(driver));
        let (sender, receiver) = if self.device_sends { (device, driver) } else { (driver, device) };
        Ok(Link::Pair { sender, receiver })
    }

    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        Some(self.kill_a_holder())
    }
}

#[test]
fn child_port() {
    let Some(path) = child::task() else { return };
    let _port = linerate_port_vhost::open(format!("vhost:{path}").parse().unwrap(), &common::pool()).unwrap();
    child::ready_and_wait();
}

fn check(mtu: usize, shape: Shape) {
    for device_sends in [true, false] {
        check_all(&mut Vhost { device_sends, mtu, shape, place: None });
    }
}

#[test]
fn modern_driver() {
    check(1500, Shape::default());
}

#[test]
fn jumbo_packets_in_small_buffers_and_tables() {
    check(9000, Shape { buffer: 1024, descriptors: 3, entries: 512, ..Shape::default() });
}

#[test]
fn legacy_driver_without_mergeable_buffers() {
    check(1500, Shape { features: 0, descriptors: 2, ..Shape::default() });
}

#[test]
fn chains_without_tables_or_event_indices() {
    let features = MERGEABLE | PROTOCOL | VERSION_1;
    check(1500, Shape { features, buffer: 256, descriptors: 4, entries: 64, ..Shape::default() });
}

#[test]
fn one_large_buffer_for_each_packet() {
    let features = INDIRECT | EVENT_INDEX | PROTOCOL | VERSION_1;
    check(2000, Shape { features, buffer: 4096, ..Shape::default() });
}
