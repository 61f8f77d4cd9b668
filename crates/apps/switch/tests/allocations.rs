//! Once its ports are up, nothing that packets do in the switch allocates.

#[path = "../../../base/mem/tests/allocations/sys.rs"]
mod sys;

use linerate_l2::{Mirror, MirrorSelect, PortSettings, Rate, Switch, SwitchConfig, VlanMode};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Datapath, Port};
use linerate_switch::{Clocks, InlineSwitch};
use sys::allocations;

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap()
}

/// Packet `number` to any of a thousand stations, from any other, some with a tag, some to all.
fn write(bytes: &mut [u8], number: u32) {
    let mixed = number.wrapping_mul(0x9e37_79b1);
    bytes.fill(0);
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, (mixed >> 30) as u8, (mixed >> 22) as u8]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, (mixed >> 20) as u8 & 3, (mixed >> 12) as u8]);
    if mixed.is_multiple_of(7) {
        bytes[..6].fill(0xff);
    }
    if mixed.is_multiple_of(5) {
        bytes[12..16].copy_from_slice(&[0x81, 0, 0, 7]);
    }
}

#[test]
fn the_switch_does_not_allocate_once_its_ports_are_up() {
    let mut pool = pool();
    let mut switch = Switch::new(SwitchConfig { mac_entries: 512, ..SwitchConfig::default() }, &pool).unwrap();
    let limited = PortSettings { rate_packets: Some(Rate::per_second(1_000_000)), ..PortSettings::default() };
    let access = PortSettings { vlan: VlanMode::Access { vlan: 7 }, ..PortSettings::default() };
    let settings = [PortSettings::default(), limited, access, PortSettings::monitor()];
    let ports = settings.map(|settings| switch.add_port(settings).unwrap());
    switch.add_mirror(Mirror { select: MirrorSelect::Both(ports[0]), to: ports[3] }).unwrap();
    let mut batch = Batch::new(&pool, 64);
    let mut number = 0;
    let mut turn = || {
        for port in ports {
            pool.alloc(&mut batch, 64, 60);
            batch.iter_mut().for_each(|bytes| {
                number += 1;
                write(bytes, number);
            });
            switch.forward(port, &mut batch, &mut pool, u64::from(number) * 1_000);
        }
        for port in ports {
            let Some(queue) = switch.output(port) else { continue };
            let packets = queue.totals().packets;
            pool.free(queue);
            switch.tx_done(port, packets as usize, u64::from(number) * 1_000);
        }
        switch.age(u64::from(number) * 1_000_000);
    };
    turn();
    assert_eq!(allocations(|| (0..100).for_each(|_| turn())), 0);
    let totals = switch.totals();
    totals.balances().unwrap();
    let all =
        [totals.ports.unicast, totals.ports.flood_copies, totals.ports.mirror_copies, switch.mac_counters().evicted];
    assert!(all.iter().all(|count| *count > 0), "{all:?}");
}

#[test]
fn the_in_process_switch_does_not_allocate_once_its_ports_are_up() {
    let (mut pool, mut own) = (pool(), pool());
    let switch = InlineSwitch::new(SwitchConfig::default(), &pool, Clocks::one(|| 0)).unwrap();
    let [mut a, mut b] = ["a", "b"].map(|name| switch.attach(name).unwrap());
    let mut c = switch.attach_isolated("c", PortSettings::default(), 256, &own).unwrap();
    let [mut shared, mut apart] = [Batch::new(&pool, 128), Batch::new(&own, 128)];
    let mut number = 0;
    let mut turn = || {
        for _ in 0..2 {
            pool.alloc(&mut shared, 64, 60);
            shared.iter_mut().for_each(|bytes| {
                number += 1;
                write(bytes, number);
            });
            a.transmit(&mut shared).unwrap();
            b.receive(&mut shared).unwrap();
            pool.free(&mut shared);
        }
        c.receive(&mut apart).unwrap();
        c.transmit(&mut apart).unwrap();
        own.free(&mut apart);
        a.receive(&mut shared).unwrap();
        pool.free(&mut shared);
    };
    turn();
    assert_eq!(allocations(|| (0..100).for_each(|_| turn())), 0);
}
