//! Named namespaces and temporary folders that a killed run left behind. (Anonymous namespaces and devices' processes go with
//! their process.)

use linerate_sys::netns;

use crate::topology::owner_of;

/// The named namespaces whose process is gone.
pub fn left_behind() -> Vec<String> {
    let is_gone = |name: &String| owner_of(name).is_some_and(|owner| owner.is_gone());
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
