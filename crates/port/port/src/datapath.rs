//! The trait of everything that moves packets between ports: a bridge, a load balancer, a switch, a TCP stack, a receiver.

use linerate_mem::{Batch, Pool};

use crate::LinkState;

/// Number of a port in its worker, and in the worker's datapath. The worker gives a new port the lowest number that is free. The
/// number stays the same while the port is attached, also while its link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortIndex(pub u16);

impl std::fmt::Display for PortIndex {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

/// Decides what happens to packets; a worker (`linerate-worker`) owns one, drives its ports, and calls it from one thread.
///
/// ```text
///   port 0 --receive--> batch --input(0)--> [ datapath ] --output(1)--> batch --transmit--> port 1
///                                              ^   |
///                     tick, link_changed ------+   +---- next_deadline_ns, is_done, waiting
/// ```
/// One round of the worker is, in this order:
/// 1. for each port by number: the worker receives a batch and calls [`Datapath::input`];
/// 2. [`Datapath::tick`], if [`Datapath::next_deadline_ns`] has come;
/// 3. for each port by number: the worker calls [`Datapath::output`], transmits from the front of that batch, and reports by
///    [`Datapath::tx_done`] how many packets the port took.
///
/// When packets end a sleep of the worker, the ports that woke it come first: steps 1 and 3 are done for them before the next round.
///
/// **Rules for an implementation**:
/// - It never waits, sleeps, locks, logs or allocates in `input`, `output` and `tx_done`. The time is [`Context::now_ns`], which the
///   worker reads once a round, before it receives. An engine reads no clock at all; a receiver in a program, which measures latency,
///   may read one for each batch.
/// - It owns the queues. It decides how long they are, and what happens when one is full: it drops packets and counts them (a
///   switch), or it leaves them in the batch of `input` (back pressure).
/// - It accounts for every packet that it took from `input`, or made itself, until `tx_done` reports it or the datapath drops it.
///   Frames of dropped packets go back to a pool of their region.
/// - A packet of several slots (all but the last are marked `more`) is taken, queued or dropped as a whole.
/// - It does not know what a port is. It gets numbers, packets and the time, so a test drives it without a worker.
pub trait Datapath {
    /// Takes packets from the front of `batch`, which arrived at port `from`, oldest first. The batch is not empty.
    ///
    /// The datapath moves the slots into its queues, or returns their frames to `context.pool`, which is a handle of their pool.
    /// It may also keep the whole batch and leave an empty one of the same pool, capacity and kind (with or without times) in its place.
    /// Packets that it leaves in the batch are held by the worker: it receives nothing more from `from`, and calls `input` with the same
    /// packets again in the next round. This is back pressure: the ring of the port fills, and the port counts what it loses.
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>);

    /// As [`Datapath::input`], for a batch that a port has just filled and of which it said how many packets it holds: whoever needs no more
    /// than that number need not look for packets of several slots.
    #[inline]
    fn input_counted(&mut self, from: PortIndex, batch: &mut Batch, packets: usize, context: &mut Context<'_>) {
        let _ = packets;
        self.input(from, batch, context);
    }

    /// The port that all packets from port `from` leave by, if the datapath neither changes, counts nor copies them and none waits for that
    /// port: two ports of one kind may then hand them on by themselves ([`crate::Port::hand_on`]), and [`Datapath::passed`] tells how many.
    fn passes_to(&self, from: PortIndex) -> Option<PortIndex> {
        let _ = from;
        None
    }

    /// Notes that `packets` packets came from port `from` and left by port `to` ([`Datapath::passes_to`]), which `input` and `tx_done` are not
    /// told of.
    fn passed(&mut self, from: PortIndex, to: PortIndex, packets: usize) {
        let _ = (from, to, packets);
    }

    /// The packets that are to leave by port `to`, oldest first; `None` or an empty batch if there are none.
    ///
    /// The worker calls this once a round for each port, takes packets from the front, and never puts any in. The slots belong to the
    /// pool of `to`: a datapath between ports of different pools copies packets in `input`.
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch>;

    /// Notes that port `to` took the first `packets` packets of its output. A packet of several slots counts once. `now_ns` is when they
    /// left, which may be later than the time of the round, if the datapath [asks for it](Datapath::wants_tx_time), else 0.
    fn tx_done(&mut self, to: PortIndex, packets: usize, now_ns: u64);

    /// True if [`Datapath::tx_done`] needs the time, for example to say how long packets waited. The worker then reads its clock once
    /// more in each round that sends: some 25 ns, which two batches of 32 packets feel.
    fn wants_tx_time(&self) -> bool {
        false
    }

    /// Number of packets in the output of `to`, by the datapath's own count: those that it put there, less those that `tx_done`
    /// reported and those that it dropped. A packet of several slots counts once.
    ///
    /// The worker asks when a port failed, because the difference to the packets that are left is what the port took before, and
    /// when it is idle or ends. It does not ask in rounds that move packets.
    fn waiting(&self, to: PortIndex) -> u64;

    /// Drops, and counts, the packet at the front of the output of `to`, which is longer than the `len_max` bytes that the port
    /// takes (its MTU may have shrunk since the packet was queued). The datapath may drop all that are too long. If the packet stayed,
    /// nothing would leave by this port any more.
    fn too_long(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>);

    /// Port `to` has not taken a packet for a second although some wait: its peer is absent or hangs. The worker calls this once
    /// a second until the port takes packets again. The datapath may drop, and count, the packets that wait, so that a peer that comes
    /// back gets no old ones. By default they stay.
    fn stuck(&mut self, to: PortIndex, context: &mut Context<'_>) {
        let _ = (to, context);
    }

    /// The port `to` takes packets of up to `len_max` bytes, more than [`Datapath::too_long`] said: its MTU has grown again. The worker asks
    /// such ports ten times a second. A datapath that remembers what it was told by `too_long` forgets it.
    fn takes_longer(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>) {
        let _ = (to, len_max, context);
    }

    /// The link of `port` went down or came up again. The number and the settings of the port stay. While the interface of the port is
    /// down, nothing is received from it or transmitted to it, and [`Datapath::stuck`] is called as for any port that takes nothing. A
    /// port without a carrier or a peer is served as before; the datapath is told of it only if it [follows links](Datapath::follows_links).
    fn link_changed(&mut self, port: PortIndex, link: LinkState, context: &mut Context<'_>) {
        let _ = (port, link, context);
    }

    /// True if [`Datapath::link_changed`] is also to tell of carriers and peers that go and come, within 10 ms: a link of which the far
    /// end was set down, or a memif whose peer has gone. The worker then asks every port every 10 ms ([`crate::Port::link`]), also while
    /// nothing arrives. A port counts as up when it is attached, so one without a peer is told of 10 ms later. The worker reads this
    /// when it is made.
    fn follows_links(&self) -> bool {
        false
    }

    /// `port` was taken out of the worker: it broke, its far side is gone, or somebody removed it. The datapath drops, and counts,
    /// the packets that wait for it, and forgets what it knows of the number, which the next port may get.
    fn removed(&mut self, port: PortIndex, context: &mut Context<'_>) {
        let _ = (port, context);
    }

    /// Time at which [`Datapath::tick`] is to be called, in nanoseconds of [`Context::now_ns`]; `u64::MAX` if there is none. The worker
    /// reads this once a round, and does not sleep beyond it.
    fn next_deadline_ns(&self) -> u64 {
        u64::MAX
    }

    /// Does what is due at `context.now_ns`: ages tables, sends again, ends a silence. Afterwards the next deadline lies in the
    /// future, or the worker would call `tick` in every round. Packets that `tick` puts into outputs leave in the same round.
    /// `context.pool` is the pool of the worker.
    fn tick(&mut self, context: &mut Context<'_>) {
        let _ = context;
    }

    /// True if there is nothing left to do, for example because a wanted number of packets was received. The worker reads this once a
    /// round, and then ends as if it was asked to stop.
    fn is_done(&self) -> bool {
        false
    }
}

/// What a worker gives a datapath beside packets.
pub struct Context<'a> {
    /// Time of the round in nanoseconds of a monotonic clock.
    pub now_ns: u64,
    /// Handle of the pool of the port that the call names.
    pub pool: &'a mut Pool,
    /// The ports of the worker.
    pub ports: &'a mut dyn TransmitRef,
}

/// Sends packets to a port from where they lie.
pub trait TransmitRef {
    /// Sends packets of `batch` from slot `from` on by port `to` without taking them, as far as the port can (see
    /// [`crate::Port::transmit_ref`]); returns how many packets. It returns 0 if there is no such port, or if its link is down.
    fn transmit_ref(&mut self, to: PortIndex, batch: &Batch, from: usize) -> usize;
}

/// No ports: for a datapath that is driven without a worker.
impl TransmitRef for () {
    fn transmit_ref(&mut self, _: PortIndex, _: &Batch, _: usize) -> usize {
        0
    }
}
