//! A stream file and an open port -> what one thread is to do. Everything that can be known to fail is refused here, with
//! the numbers.

use linerate_gen::{Arrival, BATCH_DEFAULT, SenderPlan, reduce_for_tx_generator};
use linerate_port::{Caps, FarSide, Port, TxGenerator};
use linerate_streams::{FCS_BYTES, StreamEntry, StreamFile};
use linerate_units::Rate;
use linerate_wire::{EtherType, Layer, MacAddress};

/// Shortest Ethernet frame on the wire, FCS included.
const SIZE_WIRE_MIN: u32 = 64;

/// One of all threads that send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Position of its port among all ports.
    pub port: usize,
    /// Its number among the threads of that port.
    pub thread: usize,
    /// Threads of each port.
    pub threads: usize,
}

impl Place {
    /// Its number among all threads.
    fn number(self) -> usize {
        self.port * self.threads.max(1) + self.thread
    }
}

/// Streams for one thread of a port, checked against that port.
pub struct Prepared {
    /// The plan.
    pub plan: SenderPlan,
    /// Stream ids of its signatures, `None` for streams without, in the order of the plan's streams.
    pub ids: Vec<Option<u16>>,
    /// The rate in packets per second; `None` = as fast as the port takes packets.
    pub rate_pps: Option<f64>,
    /// By how many nanoseconds later than the first thread of its port it starts.
    pub later_ns: u64,
    /// What a user should know.
    pub notes: Vec<String>,
}

/// Plans what one thread of the port with these `caps` sends of `file`; with `gateway` to that Ethernet address. The threads of a port divide
/// flows, rate and number of packets among them, and each has its own stream ids, as each port has.
///
/// # Errors
/// Packets that the port cannot take, a rate that cannot be worked out, or too many signature ids.
pub fn prepare(
    file: &StreamFile,
    rate: Option<Rate>,
    caps: &Caps,
    place: Place,
    batch: Option<usize>,
    gateway: Option<MacAddress>,
) -> Result<Prepared, String> {
    check_len(file, caps)?;
    let rate_pps =
        rate.map(|rate| rate.to_pps_mixed(file.mean_size_wire(), caps.link_bps.map(|bps| bps as f64))).transpose();
    let rate_pps = rate_pps.map_err(|error| format!("{}: {error}", caps.name))?;
    let mut streams = Vec::new();
    let mut ids = Vec::new();
    let mut notes = if place.thread == 0 { notes(file, rate_pps, caps) } else { Vec::new() };
    for (at, entry) in file.streams.iter().enumerate() {
        let (mut spec, has_own_flows) = entry.spec.share(place.thread, place.threads);
        if !has_own_flows && place.thread == 0 {
            notes.push(format!(
                "{}: stream {at} has fewer flows than there are threads, so each of the {} threads sends all of them; packets of a flow that leave \
                 by two queues may overtake each other (--flows makes more)",
                caps.name, place.threads
            ));
        }
        if let (false, Some(mac), Some(Layer::Ethernet(header))) =
            (entry.source_mac_given, caps.mac, spec.stack.layers.first_mut())
        {
            header.src = MacAddress(mac);
        }
        if let (Some(mac), Some(Layer::Ethernet(header))) = (gateway, spec.stack.layers.first_mut()) {
            header.dst = mac;
        }
        if let Some(id) = &mut spec.signature {
            let raised = usize::from(*id) + place.number() * file.streams.len();
            *id = u16::try_from(raised).map_err(|_| {
                format!("{}: stream id {raised} does not fit 16 bits; begin with lower ones", caps.name)
            })?;
        }
        ids.push(spec.signature);
        streams.push((spec.plan().map_err(|error| error.to_string())?, entry.weight));
    }
    let (schedule, later_ns) = file.schedule(rate_pps).share(place.thread, place.threads);
    let plan =
        SenderPlan { streams, schedule, batch: batch.unwrap_or(BATCH_DEFAULT), first_sequence: 0, in_turn: false };
    Ok(Prepared { rate_pps: plan.schedule.rate_pps, plan, ids, later_ns, notes })
}

/// Has the port itself make the packets, where it can make these; says why where it could and cannot, unless that matters little.
pub fn offload_to(port: &mut dyn Port, plan: &SenderPlan) -> Result<bool, String> {
    let name = port.caps().name.clone();
    let Some(backend) = port.tx_generator() else { return Ok(false) };
    match load(backend, plan) {
        Ok(()) => Ok(true),
        Err(_) if backend.is_shortcut() => Ok(false),
        Err(why) => Err(format!("{name}: packets are made here and copied to the port: {why}")),
    }
}

fn load(backend: &mut dyn TxGenerator, plan: &SenderPlan) -> Result<(), String> {
    let [(stream, _)] = &plan.streams[..] else { return Err("there are several streams".into()) };
    if plan.schedule.rate_pps.is_some() && plan.schedule.arrival != Arrival::Constant {
        return Err("a program in the kernel sends with equal gaps only".into());
    }
    let stream = reduce_for_tx_generator(stream, plan.first_sequence, plan.schedule.rate_pps);
    let stream = stream.map_err(|error| error.to_string())?;
    backend.load(&stream).map_err(|error| error.to_string())
}

fn check_len(file: &StreamFile, caps: &Caps) -> Result<(), String> {
    let allowed = |entry: &StreamEntry| match entry.spec.stack.layers.get(1) {
        Some(Layer::Vlan { tpid: EtherType::VLAN, .. }) => caps.frame_len_max + caps.tag_bytes,
        _ => caps.frame_len_max,
    };
    let longest = |entry: &StreamEntry| entry.spec.lens.iter().copied().max().unwrap_or(0);
    let Some(entry) = file.streams.iter().find(|entry| longest(entry) > allowed(entry)) else { return Ok(()) };
    let (len_max, allowed) = (longest(entry), allowed(entry));
    Err(format!(
        "{}: packets of {} bytes on the wire ({len_max} without FCS) are longer than the {} ({} without FCS) that it takes; \
         a larger MTU (`ip link set DEV mtu {}`) or a smaller size helps",
        caps.name,
        len_max + FCS_BYTES,
        allowed + FCS_BYTES,
        allowed,
        (len_max + caps.frame_len_max).saturating_sub(allowed + 14)
    ))
}

fn notes(file: &StreamFile, rate_pps: Option<f64>, caps: &Caps) -> Vec<String> {
    let mut notes = Vec::new();
    let shortest =
        file.streams.iter().flat_map(|entry| &entry.sizes_wire).map(|(size, _)| *size).min().unwrap_or(SIZE_WIRE_MIN);
    let is_ethernet = matches!(caps.far_side, FarSide::Interface | FarSide::Peer);
    if shortest < SIZE_WIRE_MIN && is_ethernet {
        notes.push(format!(
            "{}: packets of {shortest} bytes are shorter than the 64 of Ethernet; NICs pad them",
            caps.name
        ));
    }
    if let (Some(rate_pps), Some(link_bps)) = (rate_pps, caps.link_bps) {
        let line_pps = link_bps as f64 / 8.0 / (file.mean_size_wire() + 20.0);
        if rate_pps > line_pps * 1.000_001 {
            notes.push(format!(
                "{}: {} is more than its link carries ({})",
                caps.name,
                linerate_units::show::pps(rate_pps),
                linerate_units::show::pps(line_pps)
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_streams::parse;

    fn caps(frame_len_max: usize, link_bps: Option<u64>) -> Caps {
        Caps {
            name: "packet:r0".into(),
            backend: "packet",
            frame_len_max,
            link_bps,
            mac: Some([2, 0, 0, 0, 0, 9]),
            ..Caps::default()
        }
    }

    #[test]
    fn lengths_are_compared_with_the_port() {
        let file = parse("[[stream]]\nsize = 9018").unwrap();
        let error = prepare(&file, None, &caps(1514, None), Place::default(), None, None).map(|_| ()).unwrap_err();
        assert!(
            error.contains("9018 bytes on the wire (9014 without FCS)")
                && error.contains("1518 (1514 without FCS)")
                && error.contains("mtu 9000"),
            "{error}"
        );
        assert!(prepare(&file, None, &caps(9014, None), Place::default(), None, None).is_ok());
    }

    #[test]
    fn a_tag_makes_a_frame_longer_where_the_port_says_so() {
        let tagged = |size: u32, tags: &str| {
            let file =
                parse(&format!("[[stream]]\nsize = {size}\nlayers = ['ethernet', {tags}, 'ipv4', 'udp']")).unwrap();
            let caps = Caps { tag_bytes: 4, ..caps(1514, None) };
            prepare(&file, None, &caps, Place::default(), None, None).map(|_| ())
        };
        assert_eq!(tagged(1522, "'vlan'"), Ok(()));
        let error = tagged(1523, "'vlan'").unwrap_err();
        assert!(error.contains("1522 (1518 without FCS)") && error.contains("mtu 1501"), "{error}");
        assert!(tagged(1522, "'qinq'").is_err(), "the kernel grants the bytes to EtherType 0x8100 only");
        assert_eq!(tagged(1522, "'vlan', 'vlan'"), Ok(()));
    }

    #[test]
    fn ports_have_ids_and_addresses_of_their_own() {
        let file = parse(
            "[[stream]]\nid = 10\n[[stream]]\nlayers = [{ ethernet = { source = '02:00:00:00:00:55' } }, 'ipv4']",
        )
        .unwrap();
        let prepared =
            prepare(&file, None, &caps(1514, None), Place { port: 2, ..Place::default() }, Some(8), None).unwrap();
        assert_eq!((prepared.ids, prepared.plan.batch), (vec![Some(14), Some(5)], 8));
        let source = |stream: usize| prepared.plan.streams[stream].0.images[0].bytes[11];
        assert_eq!((source(0), source(1)), (9, 0x55));
        let file = parse("[[stream]]\nid = 65535").unwrap();
        assert!(prepare(&file, None, &caps(1514, None), Place { port: 1, ..Place::default() }, None, None).is_err());
    }

    #[test]
    fn rates_follow_from_sizes_and_link() {
        let file = parse("[[stream]]\nsize = 'imix'").unwrap();
        let rate = |text: &str, link| {
            prepare(&file, Some(text.parse().unwrap()), &caps(1514, link), Place::default(), None, None)
        };
        let mean = (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0;
        let pps = rate("50%", Some(10_000_000_000)).unwrap().rate_pps.unwrap();
        assert!((pps - 5e9 / 8.0 / (mean + 20.0)).abs() < 1e-6, "{pps}");
        assert!(rate("50%", None).is_err());
        assert_eq!(rate("20Gbit/s", Some(10_000_000_000)).unwrap().notes.len(), 1);
    }

    #[test]
    fn threads_divide_flows_rate_and_packets_and_have_ids_of_their_own() {
        let file = parse(
            "rate = '1kpps'\ncount = 5\n[[stream]]\nid = 10\nvary = [{ field = 'udp.source', first = 1, count = 4 }]\n[[stream]]\n",
        );
        let file = file.unwrap();
        let thread = |thread| {
            let place = Place { port: 1, thread, threads: 2 };
            prepare(&file, Some("1kpps".parse().unwrap()), &caps(1514, None), place, None, None).unwrap()
        };
        let (first, second) = (thread(0), thread(1));
        assert_eq!((first.ids, second.ids), (vec![Some(14), Some(5)], vec![Some(16), Some(7)]));
        assert_eq!((first.plan.schedule.packets, second.plan.schedule.packets), (Some(3), Some(2)));
        assert_eq!(
            (first.rate_pps, second.rate_pps, first.later_ns, second.later_ns),
            (Some(500.0), Some(500.0), 0, 1_000_000)
        );
        assert!(first.plan.streams[0].0.fields != second.plan.streams[0].0.fields);
        // The second stream has one flow.
        assert!(matches!(&first.notes[..], [note] if note.contains("stream 1 has fewer flows")), "{:?}", first.notes);
        assert!(second.notes.is_empty());
    }
}
