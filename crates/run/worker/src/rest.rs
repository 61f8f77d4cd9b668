//! Ports that rest: a look for packets at a port of the kernel is a system call, also when there are none, and a switch may have hundreds of
//! ports of which a few are busy. One that brought nothing for a while is no longer looked at until the kernel says that something came.

use std::os::fd::{AsFd, BorrowedFd};

use linerate_port::{Datapath, PortIndex};
use linerate_sys::epoll::Epoll;

use crate::ports::{Attached, Ending};
use crate::worker::Served;

/// With fewer such ports, asking which of them have something costs as much as looking at all.
const CANDIDATES_MIN: usize = 8;
/// Looks in a row that brought nothing, after which a port rests.
const QUIET_LOOKS: u32 = 16;
/// Ports that are woken at a time; the rest follows in the next round.
const WOKEN_MAX: usize = 64;

/// Which ports rest, and what tells that they have something.
#[derive(Default)]
pub(crate) struct Rest {
    /// The descriptors of the ports that rest, by the number of the port.
    arrivals: Option<Epoll>,
    /// Ports that may rest.
    candidates: usize,
    resting: usize,
    told: Vec<u64>,
}

impl Rest {
    /// What can be read when something came for a port that rests; `None` if none does.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.arrivals.as_ref().filter(|_| self.resting > 0).map(AsFd::as_fd)
    }

    /// A port is attached.
    pub(crate) fn attach(&mut self, attached: &mut Attached) {
        attached.may_rest = attached.open && attached.port.caps().rx_syscalls;
        self.candidates += usize::from(attached.may_rest);
    }

    /// A port is taken out.
    pub(crate) fn detach(&mut self, attached: &mut Attached) {
        self.wake(attached);
        self.candidates -= usize::from(attached.may_rest);
    }

    /// A look at a port brought nothing.
    #[inline]
    pub(crate) fn nothing_came(&mut self, index: PortIndex, attached: &mut Attached) {
        if attached.may_rest {
            attached.quiet += 1;
            if attached.quiet >= QUIET_LOOKS {
                attached.quiet = 0;
                self.lay(index, attached);
            }
        }
    }

    /// A port that does not say when something comes does not rest.
    #[cold]
    fn lay(&mut self, index: PortIndex, attached: &mut Attached) {
        if self.candidates < CANDIDATES_MIN || attached.ending != Ending::No {
            return;
        }
        if self.arrivals.is_none() {
            self.arrivals = Epoll::new(WOKEN_MAX).ok();
        }
        let Some(arrivals) = &self.arrivals else { return };
        let mut added = true;
        let add = &mut |descriptor: BorrowedFd<'_>| added &= arrivals.add(descriptor, u64::from(index.0)).is_ok();
        let armed = attached.port.arm_wakeup(add);
        attached.rests = true;
        self.resting += 1;
        if !armed || !added {
            self.wake(attached);
        }
    }

    fn wake(&mut self, attached: &mut Attached) {
        if attached.rests {
            attached.rests = false;
            self.resting -= 1;
            if let Some(arrivals) = &self.arrivals {
                // One that could not be added is not there.
                attached.port.arm_wakeup(&mut |descriptor| _ = arrivals.remove(descriptor));
            }
        }
    }
}

impl Served<dyn Datapath + '_> {
    /// Ports for which something came rest no longer.
    #[inline]
    pub(crate) fn wake_ports(&mut self) {
        if self.rest.resting > 0 {
            self.wake_told();
        }
    }

    #[cold]
    fn wake_told(&mut self) {
        let Served { rest, ports, .. } = self;
        let mut told = std::mem::take(&mut rest.told);
        let asked = rest.arrivals.as_mut().is_some_and(|arrivals| arrivals.ready(&mut told).is_ok());
        if asked {
            for number in told.drain(..) {
                if let Some(attached) = ports.get_mut(PortIndex(number as u16)) {
                    rest.wake(attached);
                }
            }
        } else {
            ports.iter_mut().for_each(|(_, attached)| rest.wake(attached));
        }
        rest.told = told;
    }
}
