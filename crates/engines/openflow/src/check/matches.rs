//! Rules of matches (sections 7.2.3.5 to 7.2.3.8).

use super::protocols::Protocols;
use crate::{ErrorKind, Field, FieldMatch, Match};

const VID_PRESENT: u128 = 0x1000;

impl FieldMatch {
    /// Checks value and mask by themselves: widths, value bits outside of the mask, VLAN IDs without `OFPVID_PRESENT`.
    pub fn check(&self) -> Result<(), ErrorKind> {
        self.check_bits()?;
        if self.field == Field::VlanVid {
            let wants_untagged = self.effective_mask() & VID_PRESENT != 0 && self.value & VID_PRESENT == 0;
            if wants_untagged && self.value != 0 {
                return Err(ErrorKind::BadMatchBadValue);
            }
        }
        Ok(())
    }

    /// As [`FieldMatch::check`], without the rule of VLAN IDs.
    pub(crate) fn check_bits(&self) -> Result<(), ErrorKind> {
        let full = self.field.full_mask();
        if self.value & !full != 0 {
            return Err(ErrorKind::BadMatchBadValue);
        }
        if let Some(mask) = self.mask {
            if !self.field.is_maskable() || mask & !full != 0 {
                return Err(ErrorKind::BadMatchBadMask);
            }
            if self.value & !mask != 0 {
                return Err(ErrorKind::BadMatchBadWildcards);
            }
        }
        Ok(())
    }
}

impl Match {
    /// Checks fields by themselves, that none occurs twice or is an experimenter's, and that the match has each field's prerequisites, in any
    /// order.
    pub fn check(&self) -> Result<(), ErrorKind> {
        self.check_each()?;
        let protocols = Protocols::of(self);
        let all = self.fields.iter().all(|wanted| protocols.have(wanted.field));
        if all { Ok(()) } else { Err(ErrorKind::BadMatchBadPrereq) }
    }

    /// As [`Match::check`], where prerequisites must stand before the fields that need them, as in messages.
    pub fn check_in_order(&self) -> Result<(), ErrorKind> {
        self.check_each()?;
        let mut protocols = Protocols::unstated();
        for wanted in &self.fields {
            if !protocols.have(wanted.field) {
                return Err(ErrorKind::BadMatchBadPrereq);
            }
            protocols.learn(wanted);
        }
        Ok(())
    }

    /// Checks each field by itself, in the order of the message.
    fn check_each(&self) -> Result<(), ErrorKind> {
        if let Some((place, _)) = self.experimenter_fields.first() {
            self.fields.iter().take(*place).try_for_each(FieldMatch::check)?;
            return Err(ErrorKind::BadMatchBadField);
        }
        let mut seen = 0_u64;
        for wanted in &self.fields {
            wanted.check()?;
            let bit = 1 << wanted.field as u8;
            if seen & bit != 0 {
                return Err(ErrorKind::BadMatchDupField);
            }
            seen |= bit;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4() -> Match {
        Match::default().with(Field::EthType, 0x0800)
    }

    #[test]
    fn prerequisites_are_wanted_and_in_messages_first() {
        assert_eq!(Match::default().with(Field::Ipv4Src, 1).check(), Err(ErrorKind::BadMatchBadPrereq));
        assert_eq!(ipv4().with(Field::TcpDst, 80).check(), Err(ErrorKind::BadMatchBadPrereq));
        assert_eq!(ipv4().with(Field::IpProto, 6).with(Field::TcpDst, 80).check_in_order(), Ok(()));
        let late = ipv4().with(Field::TcpDst, 80).with(Field::IpProto, 6);
        assert_eq!((late.check(), late.check_in_order()), (Ok(()), Err(ErrorKind::BadMatchBadPrereq)));
        let advertised = Match::default()
            .with(Field::EthType, 0x86dd)
            .with(Field::IpProto, 58)
            .with(Field::Icmpv6Type, 136)
            .with(Field::Ipv6NdTarget, 1);
        assert_eq!(advertised.clone().with(Field::Ipv6NdTll, 1).check(), Ok(()));
        assert_eq!(advertised.with(Field::Ipv6NdSll, 1).check(), Err(ErrorKind::BadMatchBadPrereq));
        assert_eq!(Match::default().with(Field::InPhyPort, 1).check(), Err(ErrorKind::BadMatchBadPrereq));
    }

    #[test]
    fn a_priority_wants_a_tag() {
        for (vid, wanted) in [(0x1005, Ok(())), (0, Err(ErrorKind::BadMatchBadPrereq))] {
            assert_eq!(Match::default().with(Field::VlanVid, vid).with(Field::VlanPcp, 3).check(), wanted);
        }
        let any_tag = Match::default().with_masked(Field::VlanVid, 0x1000, 0x1000).with(Field::VlanPcp, 3);
        assert_eq!(any_tag.check(), Ok(()));
        let any_vid = Match::default().with_masked(Field::VlanVid, 5, 0xfff).with(Field::VlanPcp, 3);
        assert_eq!(any_vid.check(), Err(ErrorKind::BadMatchBadPrereq));
    }

    #[test]
    fn values_and_masks_are_checked() {
        let check = |field, value, mask| FieldMatch { field, value, mask }.check();
        assert_eq!(check(Field::VlanPcp, 8, None), Err(ErrorKind::BadMatchBadValue));
        assert_eq!(check(Field::VlanVid, 5, None), Err(ErrorKind::BadMatchBadValue));
        assert_eq!(check(Field::VlanVid, 5, Some(0xfff)), Ok(()));
        assert_eq!(check(Field::VlanVid, 0x1000, Some(0x1000)), Ok(()));
        assert_eq!(check(Field::VlanVid, 0x1000, Some(0xffff)), Err(ErrorKind::BadMatchBadMask));
        assert_eq!(check(Field::IpProto, 6, Some(0xff)), Err(ErrorKind::BadMatchBadMask));
        assert_eq!(check(Field::Ipv4Src, 1, Some(0xffff_ff00)), Err(ErrorKind::BadMatchBadWildcards));
        let twice = Match::default().with(Field::EthType, 1).with(Field::EthType, 1);
        assert_eq!(twice.check(), Err(ErrorKind::BadMatchDupField));
    }
}
