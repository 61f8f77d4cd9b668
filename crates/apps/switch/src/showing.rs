//! Mirrors without a copy: the ports of mirrors are shown packets before these are copied, see [`linerate_l2::Look`].

use linerate_l2::{Look, PortIndex};
use linerate_mem::Batch;

use crate::hub::{Hub, LOOKS, Line};

impl Hub {
    /// Lets what has arrived go through the engine, while the ports of mirrors send what they can of it from where it lies.
    #[cold]
    pub(crate) fn forward_shown(&mut self, ingress: PortIndex, now_ns: u64) {
        let Hub { switch, lines, looks, arrived, pool, .. } = self;
        looks.clear();
        looks.extend(switch.looks(ingress).take(LOOKS));
        for look in looks.iter() {
            if look.out.is_some() {
                switch.hold(look);
            } else if switch.may_be_shown(look) {
                let packets = show(lines, look, arrived, 0);
                switch.shown_in(look, ingress, arrived, packets);
            }
        }
        switch.forward(ingress, arrived, pool, now_ns);
        for look in looks.iter() {
            let Some((port, before)) = look.out else { continue };
            let packets = match switch.may_be_shown(look) {
                true => switch.egress(port).map_or(0, |queue| show(lines, look, queue.batch_mut(), before)),
                false => 0,
            };
            switch.shown_out(look, ingress, packets, pool);
        }
    }
}

/// Shows the packets from slot `from` on to the port of a mirror; returns how many it has sent. What breaks it shows when it is
/// served itself.
fn show(lines: &mut [Line], look: &Look, batch: &Batch, from: usize) -> usize {
    let Some(line) = lines.iter_mut().find(|line| line.index == look.to) else { return 0 };
    let packets = if batch.len() > from { line.port.transmit_ref(batch, from).unwrap_or(0) } else { 0 };
    line.unflushed |= packets > 0;
    packets
}
