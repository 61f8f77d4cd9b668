//! Action sets: at most one action of each type (each field for set-field), in the order of section 5.10.

use linerate_openflow::Action;

/// The place of an action in the order of execution. Actions with the same place exclude each other, but for set-field, where the field
/// counts, too.
fn place(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 0,
        Action::PopVlan => 1,
        Action::PopPbb => 2,
        Action::PopMpls(_) => 3,
        Action::PushMpls(_) => 4,
        Action::PushPbb(_) => 5,
        Action::PushVlan(_) => 6,
        Action::CopyTtlOut => 7,
        Action::DecMplsTtl => 8,
        Action::DecNwTtl => 9,
        Action::SetMplsTtl(_) => 10,
        Action::SetNwTtl(_) => 11,
        Action::SetField(..) => 12,
        Action::SetQueue(_) => 13,
        Action::Group(_) => 14,
        Action::Output { .. } => 15,
        // Never in a set: entries with such actions are refused.
        Action::SetExperimenterField(_) | Action::Experimenter(_) => 16,
    }
}

fn same_kind(one: &Action, other: &Action) -> bool {
    match (one, other) {
        (Action::SetField(field, _), Action::SetField(wanted, _)) => field == wanted,
        _ => place(one) == place(other),
    }
}

/// An action set: at most one action of each type, and of set-field one of each field, in the order in which they are executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionSet(Vec<Action>);

impl ActionSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all actions out.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Writes actions into the set; each replaces one of its type.
    pub fn write(&mut self, actions: &[Action]) {
        for action in actions {
            self.0.retain(|old| !same_kind(old, action));
            let at = self.0.partition_point(|old| place(old) <= place(action));
            self.0.insert(at, action.clone());
        }
    }

    /// The actions in the order in which they are executed. A group makes an output void.
    pub fn in_order(mut self) -> Vec<Action> {
        if self.0.iter().any(|action| matches!(action, Action::Group(_))) {
            self.0.retain(|action| !matches!(action, Action::Output { .. }));
        }
        self.0
    }
}

/// The groups that actions name, each once, in the order of their numbers.
pub fn groups_of(actions: &mut dyn Iterator<Item = &Action>) -> Vec<u32> {
    let mut groups = Vec::new();
    for action in actions {
        if let Action::Group(group) = action {
            groups.push(*group);
        }
    }
    // A message may name thousands.
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use linerate_openflow::{Field, PortNumber};

    use super::*;

    #[test]
    fn actions_replace_those_of_their_type_and_run_in_the_specified_order() {
        let output = |port| Action::Output { port: PortNumber(port), max_len: 0 };
        let mut set = ActionSet::default();
        set.write(&[output(1), Action::SetField(Field::VlanVid, 1), Action::PushVlan(0x8100), Action::DecNwTtl]);
        set.write(&[output(2), Action::SetField(Field::VlanVid, 2), Action::SetField(Field::VlanPcp, 3)]);
        let mut with_group = set.clone();
        assert_eq!(
            set.in_order(),
            [
                Action::PushVlan(0x8100),
                Action::DecNwTtl,
                Action::SetField(Field::VlanVid, 2),
                Action::SetField(Field::VlanPcp, 3),
                output(2)
            ]
        );
        with_group.write(&[Action::Group(7)]);
        assert_eq!(with_group.in_order().last(), Some(&Action::Group(7)));
    }
}
