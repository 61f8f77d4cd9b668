//! Named namespaces and temporary folders that a killed run left behind. (Anonymous namespaces and devices' processes go with
//! their process.)

use linerate_sys::netns;
use linerate_sys::owner::Owner;

const PREFIX: &str = "linerate-";

/// The name of this process's namespace for `role`: `linerate-OWNER-ROLE` (linerate_sys::owner).
pub fn namespace_name(role: &str) -> String {
    format!("{PREFIX}{}-{role}", Owner::this())
}

/// The named namespaces whose process is gone.
pub fn left_behind() -> Vec<String> {
    let is_gone = |name: &String| owner(name).is_some_and(|owner| owner.is_gone());
    netns::named().into_iter().filter(is_gone).collect()
}

/// Removes what [`left_behind`] finds, and temporary folders of killed runs; returns each name with the error that kept it, if
/// one did.
pub fn remove_left_behind() -> Vec<(String, Option<std::io::Error>)> {
    let remove = |name: String| {
        let error = netns::remove_named(&name).err();
        (name, error)
    };
    left_behind().into_iter().map(remove).chain(crate::dut::remove_left_behind()).collect()
}

/// The process that made a namespace of this name; `None` when the name is not one of ours.
fn owner(name: &str) -> Option<Owner> {
    let (owner, role) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let ours = ["generator", "dut", "receiver"].contains(&role);
    owner.parse().ok().filter(|_| ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_form_are_ours() {
        assert_eq!(owner("linerate-123-dut"), "123".parse().ok());
        assert_eq!(owner("linerate-123-other"), None);
        assert_eq!(owner("linerate-x-dut"), None);
        assert_eq!(owner("linerate-123"), None);
        assert_eq!(owner("blue-123-dut"), None);
        assert_eq!(owner(&namespace_name("receiver")), Some(Owner::this()));
    }
}
