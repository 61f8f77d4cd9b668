//! Rules of actions (section 7.2.5): arguments, and the protocols that a packet must have when its turn comes.

use super::protocols::{Fact, Protocols};
use crate::{Action, ErrorKind, Field, Match, PortNumber};

const VID_PRESENT: u128 = 0x1000;
const GROUP_MAX: u32 = 0xffff_ff00;
const QUEUE_ANY: u32 = 0xffff_ffff;

/// Checks actions that are applied in their order to packets of a match.
///
/// Fields and headers that an action needs must follow from the match, or from the actions before it: pushes and pops are followed.
/// `OFPP_TABLE` is refused, since packet-outs only may name it.
pub fn check_actions(matching: &Match, actions: &[Action]) -> Result<(), ErrorKind> {
    check_after(Protocols::of(matching), actions, PortRules::Entry)
}

/// Checks actions of which nothing is known about the packets that they are for: of groups and action sets, to which other tables add.
pub(super) fn check_unplaced(actions: &[Action]) -> Result<(), ErrorKind> {
    check_after(Protocols::anything(), actions, PortRules::Entry)
}

/// Checks the actions of a packet-out.
pub(super) fn check_packet_out(actions: &[Action]) -> Result<(), ErrorKind> {
    check_after(Protocols::anything(), actions, PortRules::PacketOut)
}

/// Refuses actions that only an experimenter knows, before anything else of them is checked: as if they could not be read.
pub(super) fn refuse_experimenters(actions: &[Action]) -> Result<(), ErrorKind> {
    actions.iter().try_for_each(|action| match action {
        Action::Experimenter(_) => Err(ErrorKind::BadActionBadExperimenter),
        Action::SetExperimenterField(_) => Err(ErrorKind::BadActionBadSetType),
        _ => Ok(()),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PortRules {
    Entry,
    PacketOut,
}

fn check_after(mut protocols: Protocols, actions: &[Action], ports: PortRules) -> Result<(), ErrorKind> {
    for action in actions {
        check_argument(action, ports)?;
        if !is_possible(&protocols, action) {
            return Err(ErrorKind::BadActionMatchInconsistent);
        }
        follow(&mut protocols, action);
    }
    Ok(())
}

fn check_argument(action: &Action, ports: PortRules) -> Result<(), ErrorKind> {
    let (good, error) = match *action {
        Action::Experimenter(_) => (false, ErrorKind::BadActionBadExperimenter),
        Action::SetExperimenterField(_) => (false, ErrorKind::BadActionBadSetType),
        Action::Output { port, .. } => (is_output(port, ports), ErrorKind::BadActionBadOutPort),
        Action::Group(group) => (group <= GROUP_MAX, ErrorKind::BadActionBadOutGroup),
        Action::SetQueue(queue) => (queue != QUEUE_ANY, ErrorKind::BadActionBadQueue),
        Action::PushVlan(kind) => (matches!(kind, 0x8100 | 0x88a8), ErrorKind::BadActionBadArgument),
        Action::PushMpls(kind) => (matches!(kind, 0x8847 | 0x8848), ErrorKind::BadActionBadArgument),
        Action::PushPbb(kind) => (kind == 0x88e7, ErrorKind::BadActionBadArgument),
        Action::SetField(field, _) if !field.is_settable() => (false, ErrorKind::BadActionBadSetType),
        Action::SetField(field, value) => {
            let tagged = field != Field::VlanVid || value & VID_PRESENT != 0;
            (tagged && value & !field.full_mask() == 0, ErrorKind::BadActionBadSetArgument)
        }
        _ => (true, ErrorKind::BadActionBadArgument),
    };
    if good { Ok(()) } else { Err(error) }
}

fn is_output(port: PortNumber, ports: PortRules) -> bool {
    match port {
        PortNumber::IN_PORT
        | PortNumber::NORMAL
        | PortNumber::FLOOD
        | PortNumber::ALL
        | PortNumber::CONTROLLER
        | PortNumber::LOCAL => true,
        PortNumber::TABLE => ports == PortRules::PacketOut,
        port => port.0 >= 1 && port <= PortNumber::MAX,
    }
}

fn is_possible(protocols: &Protocols, action: &Action) -> bool {
    match *action {
        Action::SetField(Field::VlanVid, _) | Action::PopVlan => protocols.have_vlan(),
        Action::SetField(field, _) => protocols.have(field),
        Action::SetMplsTtl(_) | Action::DecMplsTtl | Action::PopMpls(_) => protocols.have_mpls(),
        Action::SetNwTtl(_) | Action::DecNwTtl => protocols.have_ip(),
        Action::PopPbb => protocols.have_pbb(),
        _ => true,
    }
}

/// Takes in what the action makes of the packet.
fn follow(protocols: &mut Protocols, action: &Action) {
    match *action {
        Action::PushVlan(_) => protocols.vlan = Fact::Is(true),
        Action::PopVlan => protocols.vlan = Fact::Anything,
        Action::PushMpls(kind) => protocols.eth_type = Fact::Is(kind),
        Action::PopMpls(kind) => {
            protocols.eth_type = Fact::Is(kind);
            protocols.ip_proto = Fact::Anything;
            protocols.icmpv6_type = Fact::Anything;
        }
        Action::PushPbb(kind) => {
            protocols.eth_type = Fact::Is(kind);
            protocols.vlan = Fact::Anything;
        }
        Action::PopPbb => *protocols = Protocols::anything(),
        Action::SetField(Field::EthType, kind) => protocols.eth_type = Fact::Is(kind as u16),
        Action::SetField(Field::IpProto, proto) => protocols.ip_proto = Fact::Is(proto as u8),
        Action::SetField(Field::Icmpv6Type, kind) => protocols.icmpv6_type = Fact::Is(kind as u8),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INCONSISTENT: Result<(), ErrorKind> = Err(ErrorKind::BadActionMatchInconsistent);

    fn ethernet(eth_type: u128) -> Match {
        Match::default().with(Field::EthType, eth_type)
    }

    #[test]
    fn fields_must_follow_from_the_match() {
        let set_source = [Action::SetField(Field::Ipv4Src, 1)];
        assert_eq!(check_actions(&ethernet(0x0800), &set_source), Ok(()));
        assert_eq!(check_actions(&ethernet(0x0806), &set_source), INCONSISTENT);
        assert_eq!(check_actions(&Match::default(), &[Action::DecNwTtl]), INCONSISTENT);
        assert_eq!(check_actions(&Match::default(), &[Action::SetField(Field::EthDst, 1)]), Ok(()));
    }

    #[test]
    fn pushes_and_pops_are_followed() {
        let set_vid = Action::SetField(Field::VlanVid, 0x1005);
        assert_eq!(check_actions(&Match::default(), std::slice::from_ref(&set_vid)), INCONSISTENT);
        assert_eq!(check_actions(&Match::default(), &[Action::PushVlan(0x8100), set_vid]), Ok(()));
        let labelled = [Action::PushMpls(0x8847), Action::SetField(Field::MplsLabel, 5), Action::DecMplsTtl];
        assert_eq!(check_actions(&ethernet(0x0800), &labelled), Ok(()));
        assert_eq!(check_actions(&ethernet(0x0800), &[Action::PushMpls(0x8847), Action::DecNwTtl]), INCONSISTENT);
        let unlabelled = [Action::PopMpls(0x0800), Action::DecNwTtl, Action::SetField(Field::TcpDst, 80)];
        assert_eq!(check_actions(&ethernet(0x8847), &unlabelled), Ok(()));
        assert_eq!(check_actions(&ethernet(0x0800), &[Action::PopMpls(0x0800)]), INCONSISTENT);
        assert_eq!(check_actions(&ethernet(0x0800), &[Action::PopVlan]), INCONSISTENT);
        let twice = [Action::PopVlan, Action::PopVlan];
        assert_eq!(check_actions(&Match::default().with(Field::VlanVid, 0x1001), &twice), Ok(()));
    }

    #[test]
    fn arguments_are_checked() {
        let check = |action| check_actions(&Match::default(), &[action]);
        let output = |port| Action::Output { port: PortNumber(port), max_len: 0 };
        for (port, wanted) in [(0, false), (1, true), (0xffff_ff00, true), (0xffff_ff01, false), (0xffff_fffd, true)] {
            assert_eq!(check(output(port)).is_ok(), wanted, "{port:#x}");
        }
        assert_eq!(check(output(PortNumber::TABLE.0)), Err(ErrorKind::BadActionBadOutPort));
        assert_eq!(check_packet_out(&[output(PortNumber::TABLE.0)]), Ok(()));
        assert_eq!(check(output(PortNumber::ANY.0)), Err(ErrorKind::BadActionBadOutPort));
        assert_eq!(check(Action::PushVlan(0x0800)), Err(ErrorKind::BadActionBadArgument));
        assert_eq!(check(Action::Group(crate::GROUP_ALL)), Err(ErrorKind::BadActionBadOutGroup));
        assert_eq!(check(Action::SetField(Field::Metadata, 1)), Err(ErrorKind::BadActionBadSetType));
        let untagged = [Action::PushVlan(0x8100), Action::SetField(Field::VlanVid, 5)];
        assert_eq!(check_actions(&Match::default(), &untagged), Err(ErrorKind::BadActionBadSetArgument));
    }
}
