//! From a spec to an open device.

use std::sync::Arc;

use linerate_mem::Pool;
use linerate_pci::{Address, Binding, Bus, Taken};
use linerate_port::{Device, OpenError, PortSpec};

use crate::device::{OpenDevice, control};
use crate::eal;
use crate::memory::store_of;
use crate::port::DpdkPort;
use crate::sys::{self, DeviceInfo, DeviceRequest, Failure, FrameStore};

/// How long the link of a network card may take to come up: auto-negotiation takes some seconds.
const LINK_WAIT_MS: u64 = 9000;
/// mbufs of a device whose packets are copied, for each of its queues.
const COPY_FRAMES: u32 = 8192;
/// Bytes of the largest packet that is copied: what an mbuf's length can say, without its headroom.
const COPY_ROOM_MAX: usize = 9728;

/// Opens the device that DPDK calls by the spec's target, with its options, in the calling thread's network namespace. The frames of `pool`
/// become the buffers of its mbufs.
///
/// Options of Linerate: `queues`, `promisc`, `descriptors=N` (of each ring), `mtu=N`, `symmetric` (one queue for both directions of a flow),
/// `linkwait=MS`, `bytes=no` (a bridge hands packets on to another such port unseen), `bind` (a PCI device is taken from its kernel driver until the device is closed), `bind=force` (also if the host uses it).
/// All others are the driver's (devargs).
///
/// PCI devices that killed processes left with vfio-pci are given back first.
///
/// # Errors
/// The device is not taken from its kernel driver, the EAL does not start, or the driver does not take the device: with what libdpdk logged.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Device<DpdkPort>, OpenError> {
    let options = Options::take(&mut spec)?;
    let (binding, mut notes) = bind(&spec, options.bind)?;
    let (info, store) = match start(&spec, &options, pool) {
        Ok(started) => started,
        Err(mut error) => {
            if let Some(Err(again)) = binding.map(Binding::give_back) {
                error.cause += &format!("; and its kernel driver has not got it back: {again}");
            }
            return Err(error);
        }
    };
    if options.link_wait_ms > 0 && info.link_up == 0 {
        notes.push(format!(
            "no link after {} s: packets that are sent are lost, and none arrive, until it comes up",
            f64::from(options.link_wait_ms) / 1000.0
        ));
    }
    let device = Arc::new(OpenDevice { info, name: spec.target.clone(), store, binding });
    let port = |queue: u16| DpdkPort::new(&spec, &device, queue, pool, options.hands_on);
    let opened = Device::new(spec.to_string(), port(0), (1..options.queues).map(port).collect());
    Ok(if notes.is_empty() { opened } else { opened.with_note(format!("{spec}: {}", notes.join("; "))) })
}

/// Starts a device with the frames of `pool`, and the EAL before the first.
fn start(spec: &PortSpec, options: &Options, pool: &Pool) -> Result<(DeviceInfo, Arc<FrameStore>), OpenError> {
    eal::start().map_err(|cause| OpenError::new(spec, cause, "`linerate doctor` shows huge pages and limits"))?;
    sys::register_thread();
    let store = store_of(pool).map_err(|cause| OpenError::new(spec, cause, ""))?;
    let request = DeviceRequest {
        name: &spec.target,
        devargs: &options.devargs,
        queues: options.queues,
        descriptors: options.descriptors,
        mtu: options.mtu,
        promiscuous: options.promiscuous,
        symmetric: options.symmetric,
        link_wait_ms: options.link_wait_ms,
        copy_frames: COPY_FRAMES * u32::from(options.queues),
        copy_room: pool.packet_len_max().clamp(2048, COPY_ROOM_MAX) as u32 + 128,
    };
    let opened = {
        let _held = control();
        sys::open_device(&request, &store)
    };
    let info = opened.map_err(|failure| explain(spec, &failure))?;
    Ok((info, store))
}

/// Whether a PCI device is taken from its kernel driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bind {
    No,
    IfUnused,
    Force,
}

/// Gives back what killed processes left, then takes the device if that was asked for; with what there is to say of it.
fn bind(spec: &PortSpec, bind: Bind) -> Result<(Option<Binding>, Vec<String>), OpenError> {
    let (bus, address) = (Bus::default(), spec.target.parse::<Address>());
    // What cannot be given back stays noted; it matters only if it is the device that is opened now, which `take` finds.
    let _ = bus.restore_left();
    match (bind, address) {
        (Bind::No, _) => Ok((None, Vec::new())),
        (_, Err(_)) => {
            Err(OpenError::new(spec, "`bind` is for PCI devices", "write dpdk:0000:01:00.0,bind or the like"))
        }
        (_, Ok(address)) => {
            let taken = bus.take(address, bind == Bind::Force);
            match taken.map_err(|refusal| OpenError::new(spec, refusal.cause, refusal.hint))? {
                Taken::Bound(binding) => {
                    let back = binding
                        .driver_before()
                        .map_or("it is given back".into(), |driver| format!("{driver} gets it back"));
                    let note = format!("vfio-pci has the card for now; {back} at the end");
                    Ok((Some(binding), vec![note]))
                }
                Taken::Kept(why) => Ok((None, vec![why])),
            }
        }
    }
}

/// What a spec says, beside the options that all backends share.
struct Options {
    devargs: String,
    queues: u16,
    descriptors: u16,
    mtu: u16,
    /// As the driver has it if nothing is said.
    promiscuous: Option<bool>,
    symmetric: bool,
    link_wait_ms: u32,
    bind: Bind,
    /// Packets may be handed on unseen, so that nobody counts their bytes.
    hands_on: bool,
}

impl Options {
    fn take(spec: &mut PortSpec) -> Result<Options, OpenError> {
        let refuse = |spec: &PortSpec, problem: String| OpenError::new(spec, problem, "");
        let mut number = |key: &str, most: u64| {
            let number = spec.take_number(key, 0, most);
            number.map_err(|error| refuse(spec, error.problem))
        };
        let descriptors = number("descriptors", 32_768)?.unwrap_or(0) as u16;
        let mtu = number("mtu", 65_000)?.unwrap_or(0) as u16;
        let link_wait_ms = match spec.take_number("linkwait", 0, 60_000) {
            Ok(given) => given.unwrap_or(if is_bus_address(spec) { LINK_WAIT_MS } else { 0 }) as u32,
            Err(error) => return Err(refuse(spec, error.problem)),
        };
        let symmetric = spec.take_flag("symmetric").map_err(|error| refuse(spec, error.problem))?;
        let words = [("no", Bind::No), ("yes", Bind::IfUnused), ("force", Bind::Force)];
        let bind = spec.take_choice("bind", &words).map_err(|error| refuse(spec, error.problem))?;
        let words = [("yes", false), ("no", true)];
        let hands_on = spec.take_choice("bytes", &words).map_err(|error| refuse(spec, error.problem))?;
        let queues = spec.options.ports();
        let queues = u16::try_from(queues).map_err(|_| refuse(spec, format!("{queues} queues are too many")))?;
        if spec.target.is_empty() {
            return Err(OpenError::new(
                &*spec,
                "it names no device",
                "write dpdk:net_null0, dpdk:net_af_packet0,iface=eth0, dpdk:0000:01:00.0 or the like",
            ));
        }
        let mut words = std::mem::take(&mut spec.own);
        let has =
            |words: &[(String, String)], names: &[&str]| words.iter().any(|(key, _)| names.contains(&key.as_str()));
        if let Some(word) = queue_word(&spec.target).filter(|word| queues > 1 && !has(&words, &[word])) {
            words.push((word.into(), queues.to_string()));
        }
        // A slot of AF_PACKET's ring must fit into an mbuf of 2,048 bytes, behind its headroom; the driver's own choice does not. The
        // driver expects blocks that are full of slots.
        if spec.target.starts_with("net_af_packet") && !has(&words, &["framesz", "blocksz"]) {
            words.extend([("framesz".into(), "1920".into()), ("blocksz".into(), "61440".into())]);
        }
        let words: String = words.iter().map(|(key, value)| format!(",{key}={value}")).collect();
        let devargs = spec.target.clone() + &words;
        spec.finish(&["queues", "promisc", "tx_only", "rx_only"]).map_err(|error| refuse(spec, error.problem))?;
        // Network cards are opened as the interfaces of the kernel are.
        let promiscuous = spec.options.promiscuous.or(is_bus_address(spec).then_some(true));
        Ok(Options { devargs, queues, descriptors, mtu, promiscuous, symmetric, link_wait_ms, bind, hands_on })
    }
}

/// Whether a spec names a device by its place on a bus: a network card.
fn is_bus_address(spec: &PortSpec) -> bool {
    spec.target.contains(':')
}

/// The driver's own word for the number of queues, for drivers that must be told when the device is made.
fn queue_word(target: &str) -> Option<&'static str> {
    const WORDS: [(&str, &str); 3] =
        [("net_af_packet", "qpairs"), ("net_af_xdp", "queue_count"), ("net_virtio_user", "queues")];
    WORDS.iter().find(|(driver, _)| target.starts_with(driver)).map(|(_, word)| *word)
}

fn explain(spec: &PortSpec, failure: &Failure) -> OpenError {
    let cause = match failure.why.as_str() {
        "" => failure.step.clone(),
        why => format!("{} ({why})", failure.step),
    };
    let hint = if is_bus_address(spec) {
        "a network card must be with vfio-pci: the option `bind` takes it there for as long as the port is open, and \
         `linerate ports` shows who has it (docs/dpdk.md)"
    } else {
        "docs/dpdk.md lists the virtual devices and their options"
    };
    OpenError::new(spec, cause, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, OpenError> {
        Options::take(&mut text.parse().unwrap())
    }

    #[test]
    fn options_of_others_are_the_drivers() {
        let taken = options("dpdk:net_af_packet0,iface=veth0,queues=2,descriptors=256,symmetric").unwrap();
        assert_eq!(taken.devargs, "net_af_packet0,iface=veth0,qpairs=2,framesz=1920,blocksz=61440");
        assert_eq!(options("dpdk:net_af_packet0,framesz=4096").unwrap().devargs, "net_af_packet0,framesz=4096");
        assert_eq!((taken.queues, taken.descriptors, taken.symmetric, taken.link_wait_ms), (2, 256, true, 0));
        assert_eq!(options("dpdk:0000:01:00.0").unwrap().link_wait_ms, LINK_WAIT_MS as u32);
        let bind = |text| options(text).map(|taken| taken.bind);
        assert_eq!((bind("dpdk:0000:01:00.0,bind"), bind("dpdk:0000:01:00.0")), (Ok(Bind::IfUnused), Ok(Bind::No)));
        assert_eq!(bind("dpdk:0000:01:00.0,bind=force"), Ok(Bind::Force));
        let promiscuous = |text| options(text).map(|taken| taken.promiscuous);
        assert_eq!(promiscuous("dpdk:0000:01:00.0"), Ok(Some(true)));
        assert_eq!(promiscuous("dpdk:0000:01:00.0,promisc=no"), Ok(Some(false)));
        assert_eq!(promiscuous("dpdk:net_tap0"), Ok(None));
        assert_eq!(options("dpdk:net_tap0,iface=t0").unwrap().devargs, "net_tap0,iface=t0");
        let hands_on = |text| options(text).map(|taken| taken.hands_on);
        assert_eq!((hands_on("dpdk:net_ring0,bytes=no"), hands_on("dpdk:net_ring0")), (Ok(true), Ok(false)));
        for wrong in [
            "dpdk:net_ring0,bytes=maybe",
            "dpdk:",
            "dpdk:net_null0,descriptors=x",
            "dpdk:net_null0@2",
            "dpdk:net_null0,mtu=70000",
            "dpdk:0:1:0.0,bind=x",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
