//! The control thread changes entries while workers forward: once a version is quiet, no packet takes the old action.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_openflow::*;
use linerate_pipeline::{BindingKind, FlowTablesOptions, Forwarder, Switch, SwitchOptions};
use linerate_port::{Context, Datapath, PortIndex};

use crate::rig::*;

/// What a worker has to keep to.
struct Rule {
    /// The port to which packets go that a worker takes from now on, 0 while the control thread is changing it, and in the upper bits
    /// another number for each value.
    port: AtomicU64,
    /// Packets that were checked.
    checked: AtomicU64,
    stop: AtomicBool,
}

impl Rule {
    fn set(&self, port: u64) {
        let before = self.port.load(Ordering::SeqCst);
        self.port.store((before & !0xff) + 0x100 + port, Ordering::SeqCst);
    }

    /// Waits until workers have kept to the rule for some batches.
    fn is_kept(&self) {
        let checked = self.checked.load(Ordering::Relaxed);
        while self.checked.load(Ordering::Relaxed) < checked + 4 && !self.stop.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// Stops the workers also if one of them panics.
struct Stop<'a>(&'a Rule);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
    }
}

/// Forwards batches until it is told to stop. Ports 1 to 3 are bound in this order.
fn work(mut forwarder: Forwarder, mut pool: Pool, rule: &Rule) {
    let _stop = Stop(rule);
    let mut batch = Batch::new(&pool, 64);
    let packets: Vec<Vec<u8>> = (0..8).map(|flow| udp(1, 2, [flow, 80])).collect();
    let mut now_ns = SECOND;
    while !rule.stop.load(Ordering::Acquire) {
        let before = rule.port.load(Ordering::SeqCst);
        packets.iter().for_each(|packet| assert!(pool.append(&mut batch, packet, 0)));
        now_ns += 1;
        let mut context = Context { now_ns, pool: &mut pool, ports: &mut () };
        forwarder.input(PortIndex(0), &mut batch, &mut context);
        let after = rule.port.load(Ordering::SeqCst);
        let wanted = before & 0xff;
        for port in 2..=3u64 {
            let index = PortIndex(port as u16 - 1);
            let queue = forwarder.output(index).unwrap();
            let count = queue.len();
            if wanted != 0 && before == after && wanted != port {
                assert_eq!(count, 0, "a packet took the old way to port {port}");
            }
            pool.free(queue);
            forwarder.tx_done(index, count, now_ns);
        }
        rule.checked.fetch_add(u64::from(wanted != 0 && before == after), Ordering::Relaxed);
    }
}

#[test]
fn no_packet_takes_the_old_way_after_the_version_is_quiet() {
    const WORKERS: usize = 2;
    let pool = Pool::new(PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
    let tables = FlowTablesOptions { workers: WORKERS, ..FlowTablesOptions::default() };
    let mut switch = Switch::new(SwitchOptions { tables, ..SwitchOptions::default() }, SECOND);
    let mut forwarders: Vec<Forwarder> =
        (0..WORKERS).map(|_| switch.forwarder(&pool, Box::new(|| ()), Box::new(|| ())).unwrap()).collect();
    assert!(switch.forwarder(&pool, Box::new(|| ()), Box::new(|| ())).is_none());
    for port in 1..=3 {
        switch.add_port(port_settings(port, Vec::new()), true, SECOND).unwrap();
        for forwarder in &mut forwarders {
            assert!(forwarder.bind(PortIndex(port as u16 - 1), PortNumber(port), BindingKind::Port));
        }
    }
    let wanted = || in_port(1).with(Field::EthType, 0x0800).with(Field::IpProto, 17).with(Field::UdpDst, 80);
    let rule = Arc::new(Rule { port: AtomicU64::new(0), checked: AtomicU64::new(0), stop: AtomicBool::new(false) });
    std::thread::scope(|scope| {
        for forwarder in forwarders.drain(..) {
            let (pool, rule) = (pool.clone(), Arc::clone(&rule));
            scope.spawn(move || work(forwarder, pool, &rule));
        }
        for round in 0..120u32 {
            let port = 2 + round % 2;
            rule.set(0);
            let request = add(10, wanted(), apply(vec![output(port)]));
            match round / 2 % 3 {
                // The same entry is replaced, or modified, or gives way to one with a higher priority, which is deleted again.
                0 => switch.flow_mod(request, SECOND).unwrap(),
                1 => {
                    switch.flow_mod(request.clone(), SECOND).unwrap();
                    switch.flow_mod(FlowMod { command: FlowCommand::ModifyStrict, ..request }, SECOND).unwrap();
                }
                _ => {
                    let other = add(10, wanted(), apply(vec![output(5 - port)]));
                    switch.flow_mod(other, SECOND).unwrap();
                    switch.flow_mod(FlowMod { priority: 20, ..request }, SECOND).unwrap();
                }
            }
            wait_for(&mut switch);
            rule.set(port.into());
            rule.is_kept();
            if round / 2 % 3 == 2 {
                rule.set(0);
                let above = FlowMod { command: FlowCommand::DeleteStrict, priority: 20, ..add(20, wanted(), vec![]) };
                switch.flow_mod(above, SECOND).unwrap();
                wait_for(&mut switch);
                rule.set((5 - port).into());
                rule.is_kept();
            }
        }
        drop(Stop(&rule));
    });
    let totals = switch.totals();
    assert_eq!(totals.received, totals.sent + totals.dropped, "{totals:?}");
}

fn wait_for(switch: &mut Switch) {
    let version = switch.version();
    while !switch.quiesced(version) {
        std::thread::yield_now();
    }
}
