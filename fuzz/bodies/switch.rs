//! Body of the fuzz target `switch`: any packets at any ports, among changes of ports and mirrors. Also run by the tests of
//! `linerate-l2`.

use linerate_l2::{
    FlowMatch, Mirror, MirrorSelect, PortIndex, PortSettings, Rate, SERVICE_TAG, StormLimits, Switch, SwitchConfig,
    VlanMode,
};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Datapath;

/// What is left of the input.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        first
    }

    fn port(&mut self) -> PortIndex {
        PortIndex(u16::from(self.byte() % 6))
    }

    fn vlan(&mut self) -> u16 {
        u16::from(self.byte()) * 17
    }

    fn settings(&mut self) -> PortSettings {
        let (kind, vlan, flags) = (self.byte(), self.vlan(), self.byte());
        let vlan = match kind % 6 {
            0 => VlanMode::default(),
            1 => VlanMode::Access { vlan },
            2 => VlanMode::Trunk { native: None, allowed: [vlan, 1, 2].into_iter().collect(), ethertype: 0x8100 },
            3 => VlanMode::Trunk { native: Some(vlan), allowed: [1].into_iter().collect(), ethertype: SERVICE_TAG },
            4 => VlanMode::Tunnel { vlan },
            _ => VlanMode::None,
        };
        let limit = (flags & 4 != 0).then_some(Rate { per_second: 1_000_000, burst: 2 });
        PortSettings {
            vlan,
            isolated: flags & 1 != 0,
            learning: flags & 2 == 0,
            learn_limit: (flags & 64 != 0).then_some(1),
            frame_len_max: if flags & 8 != 0 { 100 } else { 65_535 },
            storm: StormLimits { unknown: limit, broadcast: limit, multicast: limit },
            rate_bits: limit.filter(|_| flags & 16 != 0),
            rate_packets: limit.filter(|_| flags & 32 != 0),
        }
    }

    fn mirror(&mut self) -> Mirror {
        let select = match self.byte() % 5 {
            0 => MirrorSelect::Ingress(self.port()),
            1 => MirrorSelect::Egress(self.port()),
            2 => MirrorSelect::Both(self.port()),
            3 => MirrorSelect::Vlan(self.vlan()),
            _ => MirrorSelect::Flow(FlowMatch { protocol: Some(self.byte()), ..FlowMatch::default() }),
        };
        Mirror { select, to: self.port() }
    }
}

/// Does what the bytes say; every packet is accounted for after every step, and every frame comes back.
pub fn run(data: &[u8]) {
    let mut pool = Pool::new(PoolConfig { frames: 48, frame_size: 1024 }).expect("48 KiB");
    let config = SwitchConfig { mac_entries: 4, queue_slots: 8, ports_max: 5, ..SwitchConfig::default() };
    let mut switch = Switch::new(config, &pool).expect("a valid shape");
    let mut arrived = Batch::new(&pool, 32);
    let mut script = Script(data);
    let mut now_ns = 0;
    while !script.0.is_empty() {
        now_ns += 100;
        match script.byte() {
            0..16 => drop(switch.add_port(script.settings())),
            16..24 => drop(switch.set_port(script.port(), script.settings())),
            24..32 => drop(switch.remove_port(script.port(), &mut pool)),
            32..40 => drop(switch.add_mirror(script.mirror())),
            40..48 => now_ns += u64::from(script.byte()) << 34,
            48..64 => {
                let port = script.port();
                if let Some(queue) = switch.output(port) {
                    let packets = queue.totals().packets;
                    pool.free(queue);
                    switch.tx_done(port, packets as usize, now_ns);
                }
            }
            // A packet that is appended only, in parts of any length, the last of which may be missing.
            64..160 => {
                let (slots, len) = (1 + script.byte() % 3, usize::from(script.byte()));
                for part in 0..slots {
                    let bytes = script.bytes(len / usize::from(part + 1));
                    if pool.alloc(&mut arrived, 1, bytes.len()) == 1 {
                        let last = arrived.len() - 1;
                        arrived.set_len(last, bytes.len());
                        arrived.packet_mut(last).copy_from_slice(bytes);
                        arrived.set_more(last, part + 1 < slots);
                    }
                }
            }
            _ => switch.forward(script.port(), &mut arrived, &mut pool, now_ns),
        }
        assert_eq!(switch.totals().balances(), Ok(()));
    }
    switch.age(now_ns);
    assert!(switch.macs().count() as u64 == switch.mac_counters().used);
    drop((switch, arrived));
    assert!(pool.is_whole());
}
