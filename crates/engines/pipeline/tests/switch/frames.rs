//! Packets that lie in several frames.

use linerate_openflow::*;
use linerate_pipeline::DropReason;

use crate::rig::*;

#[test]
fn headers_lie_in_the_first_frame_or_the_packet_is_refused() {
    let mut rig = Rig::new(2);
    let set = Action::SetField(Field::UdpDst, 53);
    rig.add(add(1, Match::default(), apply(vec![set, output(2)])));
    let packet = udp(1, 2, [1000, 2000]);
    let mut wanted = packet.clone();
    wanted[36..38].copy_from_slice(&[0, 53]);
    assert_eq!(rig.send_in_frames(1, &packet, 42), [(2, wanted)]);
    for first in [14, 16, 33, 34, 41] {
        assert_eq!(rig.send_in_frames(1, &packet, first), [], "{first}");
    }
    assert_eq!(rig.switch.drops(), [(DropReason::HeadersCut, 5)]);
    assert_eq!(rig.send_in_frames(1, &packet, 13), []);
    assert_eq!(rig.switch.drops(), [(DropReason::Runt, 1), (DropReason::HeadersCut, 5)]);
    rig.check();
}
