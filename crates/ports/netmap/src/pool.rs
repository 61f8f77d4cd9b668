//! The pool of ports with `zerocopy`: extra buffers of their memory area.

use std::sync::{Mutex, PoisonError};

use linerate_mem::{Pool, PoolConfig, WeakPool};
use linerate_port::{OpenError, PortSpec};

use crate::name::Kind;
use crate::open::{Request, missing, refused};
use crate::sys::{BUFFER_SIZE_SETTING, BUFFERS_SETTING, Control, ExtraBuffers};

/// With fewer extra buffers than this a port would stand still: a batch waits here, another one there.
const BUFFERS_MIN: usize = 512;

/// The pools of areas that this process has extra buffers of, by the area's number.
static POOLS: Mutex<Vec<(u16, WeakPool)>> = Mutex::new(Vec::new());

/// True for a spec whose port must be opened on the pool that [`pool`] makes: one with `zerocopy`.
pub fn has_own_memory(spec: &PortSpec) -> bool {
    spec.options.zero_copy == Some(true)
}

/// The pool of a port that copies nothing: as many extra buffers of its memory area as `config` has frames, or those that ports of the same
/// area have in this process already. The frames have the size of netmap's buffers.
///
/// # Errors
/// The spec is wrong, this kernel has no netmap, or netmap does not give the port or has no buffers left; with what to do.
pub fn pool(spec: &PortSpec, config: PoolConfig) -> Result<Pool, OpenError> {
    let request = Request::take(&mut spec.clone())?;
    Control::open().map_err(|error| missing(spec, &error))?;
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|(_, pool)| pool.upgrade().is_some());
    let wanted = u32::try_from(config.frames).unwrap_or(u32::MAX);
    let interface = matches!(request.name.kind, Kind::Interface | Kind::Monitor);
    let taken = ExtraBuffers::take(&request.name.port, interface, request.register, wanted);
    let (extra, numbers) = taken.map_err(|error| refused(spec, &request.name, &error))?;
    let memory = extra.memory;
    if let Some(pool) = pools.iter().find(|(area, _)| *area == memory).and_then(|(_, pool)| pool.upgrade()) {
        extra.give_back(&numbers);
        return Ok(pool);
    }
    if numbers.len() < BUFFERS_MIN.min(config.frames) {
        let cause = format!("netmap has {} buffers left in memory area {memory}, too few", numbers.len());
        extra.give_back(&numbers);
        return Err(OpenError::new(spec, cause, format!("raise {BUFFERS_SETTING}, or leave out zerocopy")));
    }
    let pool = extra.pool(&numbers).ok_or_else(|| {
        let cause = "netmap's buffers are not of a size that frames have (a power of two from 512 to 32,768 bytes)";
        OpenError::new(spec, cause, format!("set {BUFFER_SIZE_SETTING}, or leave out zerocopy"))
    })?;
    pools.push((memory, pool.downgrade()));
    Ok(pool)
}
